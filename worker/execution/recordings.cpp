#include <algorithm>
#include <set>

#include <lockstep/worker/execution/recordings.h>
#include <lockstep/worker/execution/slots.h>

namespace lockstep::worker {
namespace {

/// Products over segments of rows are not: they go by counts that the host has read.
bool can_be_recorded(const Step& step) {
  return step.launch || step.kind == Step::Kind::Matmul;
}

Segment segment_over(const Program& program, std::size_t begin, std::size_t end) {
  Segment segment{begin, end, {}, {}, {}};
  std::set<BufferId> kept;
  for (const Program::Output& output : program.outputs) kept.insert(output.buffer);
  std::set<BufferId> seen;
  for (std::size_t i = begin; i < end; ++i)
    for (BufferId at : program.steps[i].buffers) {
      if (!seen.insert(at).second) continue;
      const Buffer& buffer = program.buffers[at];
      segment.all.push_back(at);
      if (buffer.kind == Buffer::Kind::Input || buffer.first < begin)
        segment.in.push_back(at);
      else if (buffer.last >= end || kept.contains(at))
        segment.out.push_back(at);
    }
  return segment;
}

}  // namespace

std::vector<Segment> segments_of(const Program& program) {
  std::vector<Segment> out;
  const std::size_t steps = program.steps.size();
  for (std::size_t begin = 0; begin < steps;) {
    std::size_t end = begin;
    while (end < steps && can_be_recorded(program.steps[end])) ++end;
    if (end > begin + 1) out.push_back(segment_over(program, begin, end));
    begin = std::max(end, begin + 1);
  }
  return out;
}

Recordings::Recordings(const Program& program, std::shared_ptr<Device> device, std::size_t limit)
    : program_(program),
      device_(std::move(device)),
      limit_(limit),
      segments_(segments_of(program)) {}

Recordings::~Recordings() {
  for (const auto& [key, recording] : recordings_) device_->destroy(recording.work);
}

const Segment* Recordings::segment(std::size_t step) const {
  const auto found = std::ranges::lower_bound(segments_, step, {}, &Segment::begin);
  return found != segments_.end() && found->begin == step ? &*found : nullptr;
}

Result<std::optional<DeviceAddress>> Recordings::block(std::size_t bytes) {
  if (bytes == 0) return std::optional(DeviceAddress{});
  if (const auto large = blocks_.lower_bound(bytes); large != blocks_.end())
    return std::optional(large->second->address());
  auto made = device_->allocate(bytes);
  if (made && *made) blocks_.emplace(bytes, std::make_unique<DeviceBlock>(device_, **made));
  return made;
}

Result<const Recordings::Recording*> Recordings::at(const Segment& segment, const RunValues& values,
                                                    const Start& start) {
  Key key{static_cast<std::int64_t>(segment.begin)};
  for (std::size_t i = segment.begin; i < segment.end; ++i) {
    const Step& step = program_.steps[i];
    for (ExprSlot slot : step.args) key.push_back(values[slot]);
    if (step.launch) key.push_back(values[step.launch->blocks]);
    if (step.launch && step.launch->merged) key.push_back(values[*step.launch->merged]);
  }
  for (BufferId at : segment.all) key.push_back(values[program_.buffers[at].elements]);
  if (const auto found = recordings_.find(key); found != recordings_.end()) return &found->second;
  if (made_ == limit_) return nullptr;

  std::vector<SlotRequest> requests;
  for (BufferId at : segment.all) {
    const Buffer& buffer = program_.buffers[at];
    const bool in = std::ranges::find(segment.in, at) != segment.in.end();
    const bool out = std::ranges::find(segment.out, at) != segment.out.end();
    requests.push_back(
        {static_cast<std::size_t>(values[buffer.elements]) * dtype_size(buffer.dtype),
         in ? segment.begin : buffer.first,
         out ? segment.end : std::min<std::size_t>(buffer.last, segment.end)});
  }
  const SlotPlan plan = plan_slots(requests);
  auto memory = block(plan.bytes);
  if (!memory) return memory.error();
  if (!*memory) return nullptr;
  Recording recording;
  for (std::size_t k = 0; k < requests.size(); ++k)
    recording.slots[segment.all[k]] =
        requests[k].bytes == 0 ? DeviceAddress{} : moved(**memory, plan.offsets[k]);
  if (auto begun = device_->begin_recording(); !begun) return begun.error();
  const auto started = start(recording.slots);
  auto work = device_->end_recording();
  if (!started && work) device_->destroy(*work);
  if (!started || !work) {
    limit_ = made_;
    return nullptr;
  }
  recording.work = *work;
  ++made_;
  return &recordings_.emplace(std::move(key), std::move(recording)).first->second;
}

}  // namespace lockstep::worker
