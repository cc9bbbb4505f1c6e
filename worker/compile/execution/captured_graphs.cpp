#include <algorithm>
#include <set>

#include <lockstep/worker/compile/execution/captured_graphs.h>
#include <lockstep/worker/compile/execution/memory_plan.h>

namespace lockstep::worker {
namespace {

/// False for products over segments of rows: they use counts that the host has read.
bool can_be_captured(const Step& step) {
  return step.launch || step.kind == Step::Kind::Matmul || step.kind == Step::Kind::Attention;
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
    while (end < steps && can_be_captured(program.steps[end])) ++end;
    if (end > begin + 1) out.push_back(segment_over(program, begin, end));
    begin = std::max(end, begin + 1);
  }
  return out;
}

CapturedGraphs::CapturedGraphs(const Program& program, std::shared_ptr<Device> device,
                               std::size_t limit)
    : program_(program),
      device_(std::move(device)),
      limit_(limit),
      segments_(segments_of(program)) {}

CapturedGraphs::~CapturedGraphs() {
  for (const auto& [key, graph] : graphs_) device_->destroy(graph.work);
}

const Segment* CapturedGraphs::segment(std::size_t step) const {
  const auto found = std::ranges::lower_bound(segments_, step, {}, &Segment::begin);
  return found != segments_.end() && found->begin == step ? &*found : nullptr;
}

Result<std::optional<DeviceAddress>> CapturedGraphs::block(std::size_t bytes) {
  if (bytes == 0) return std::optional(DeviceAddress{});
  if (const auto large = blocks_.lower_bound(bytes); large != blocks_.end())
    return std::optional(large->second->address());
  auto made = device_->allocate(bytes);
  if (made && *made) blocks_.emplace(bytes, std::make_unique<DeviceBlock>(device_, **made));
  return made;
}

Result<const CapturedGraphs::CapturedGraph*> CapturedGraphs::at(const Segment& segment,
                                                                const RunValues& values,
                                                                const Start& start) {
  Key key{static_cast<std::int64_t>(segment.begin)};
  for (std::size_t i = segment.begin; i < segment.end; ++i) {
    const Step& step = program_.steps[i];
    for (ExprSlot slot : step.args) key.push_back(values[slot]);
    if (step.launch) key.push_back(values[step.launch->blocks]);
    if (step.launch && step.launch->merged) key.push_back(values[*step.launch->merged]);
  }
  for (BufferId at : segment.all) key.push_back(values[program_.buffers[at].elements]);
  if (const auto found = graphs_.find(key); found != graphs_.end()) return &found->second;
  if (made_ == limit_) return nullptr;

  std::vector<MemoryRequest> requests;
  for (BufferId at : segment.all) {
    const Buffer& buffer = program_.buffers[at];
    const bool in = std::ranges::find(segment.in, at) != segment.in.end();
    const bool out = std::ranges::find(segment.out, at) != segment.out.end();
    requests.push_back(
        {static_cast<std::size_t>(values[buffer.elements]) * dtype_size(buffer.dtype),
         in ? segment.begin : buffer.first,
         out ? segment.end : std::min<std::size_t>(buffer.last, segment.end)});
  }
  const MemoryPlan plan = plan_memory(requests);
  auto memory = block(plan.bytes);
  if (!memory) return memory.error();
  if (!*memory) return nullptr;
  CapturedGraph graph;
  for (std::size_t k = 0; k < requests.size(); ++k)
    graph.slots[segment.all[k]] =
        requests[k].bytes == 0 ? DeviceAddress{} : moved(**memory, plan.offsets[k]);
  if (auto begun = device_->begin_recording(); !begun) return begun.error();
  const auto started = start(graph.slots);
  auto work = device_->end_recording();
  if (!started && work) device_->destroy(*work);
  if (!started || !work) {
    limit_ = made_;
    return nullptr;
  }
  graph.work = *work;
  ++made_;
  return &graphs_.emplace(std::move(key), std::move(graph)).first->second;
}

}  // namespace lockstep::worker
