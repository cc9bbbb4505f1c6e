#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <lockstep/worker/controller/workers/command_batch.h>
#include <lockstep/worker/controller/workers/worker_loop.h>
#include <lockstep/worker/job/job_context.h>

namespace lockstep::worker {
namespace {

/// Worker 0 broadcasts at least this often within a deadline, and at least once in kHeard, to show
/// that it is alive.
constexpr int kHeardPerDeadline = 4;
constexpr std::chrono::seconds kHeard{1};

/// True if no other call is possible after this error: the ranks are not in step, or cannot go on.
bool ends_the_job(Code code) {
  return code == Code::Stuck || code == Code::RankLost || code == Code::Gone ||
         code == Code::Environment || code == Code::Internal;
}

}  // namespace

WorkerLoop::WorkerLoop(Job& job, std::unique_ptr<Lead> lead) : job_(job), lead_(std::move(lead)) {}
WorkerLoop::~WorkerLoop() = default;

collectives::Communicator& WorkerLoop::workers() const { return *job_.context().everyone.data; }

Held WorkerLoop::held() const {
  Held out;
  out.workers = static_cast<std::uint32_t>(job_.size());
  out.calls = calls_;
  out.next = tensors_.next();
  for (const FrameSlot& slot : frames_) {
    const auto* frame = std::get_if<WorkerFrame>(&slot);
    out.frames.push_back(frame != nullptr ? HeldFrame{frame->name(), frame->digest()}
                                          : HeldFrame{});
  }
  out.tensors = tensors_.held();
  return out;
}

Result<std::vector<Command>> WorkerLoop::next() {
  std::vector<Command> mine;
  std::vector<Bytes> bytes;
  const auto add = [&](Command command, Bytes as_it_came) {
    mine.push_back(std::move(command));
    if (job_.size() > 1) bytes.push_back(std::move(as_it_came));
  };
  bool came = false;
  if (lead_) {
    const Duration deadline = job_.context().settings.deadline;
    Lead::Next given = lead_->next(std::min<Duration>(kHeard, deadline / kHeardPerDeadline));
    came = given.came;
    for (auto& [command, as_it_came] : given.commands)
      add(std::move(command), std::move(as_it_came));
    if (const auto why = lead_->given_up()) {
      Command end = EndJob{*why};
      Bytes encoded = encode(end);
      add(std::move(end), std::move(encoded));
    }
  }
  greets_ = came;
  if (job_.size() == 1) return mine;
  const auto shared = share(workers(), lead_ ? encode_batch(bytes) : Bytes{}, Rank{0});
  if (!shared) return shared.error();
  return lead_ ? Result<std::vector<Command>>(std::move(mine)) : decode_batch(*shared);
}

Result<void> WorkerLoop::run() {
  while (!over_) {
    auto commands = next();
    if (!commands) return commands.error();
    for (Command& given : *commands) {
      // Frees the command's bytes after the command, not after the batch.
      const Command command = std::exchange(given, Hello{});
      job_.context().note(command_name(command));
      auto done = std::visit([this](const auto& what) { return on(what); }, command);
      if (!done) {
        reply(Verdict{done.error()});
        return done;
      }
      if (over_) break;
    }
    if (lead_) lead_->done();
    if (lead_ && std::exchange(greets_, false)) lead_->greet(held());
  }
  return {};
}

Result<void> WorkerLoop::on(const DropHandles& drop) {
  for (const Handle handle : drop.handles) tensors_.drop(handle);
  return {};
}

Result<void> WorkerLoop::on(const Settle& settle) {
  reply(Done{settle.question});
  return {};
}

Result<void> WorkerLoop::on(const Finish& finish) {
  over_ = true;
  reply(Done{finish.question});
  return {};
}

Result<WorkerFrame*> WorkerLoop::frame_of(const CallFrame& call) {
  const auto number = static_cast<std::size_t>(call.frame);
  if (number >= frames_.size())
    return bad_input(fmt::format("the workers have no frame {}", number));
  if (auto* frame = std::get_if<WorkerFrame>(&frames_[number])) return frame;
  return std::get<Status>(frames_[number]);
}

/// A failure before the call is the same on all workers, so none of them makes the call.
Result<WorkerFrame::Outputs> WorkerLoop::outputs_of(const CallFrame& call) {
  const auto frame = frame_of(call);
  if (!frame) return frame.error();
  std::vector<GivenInput> inputs;
  std::optional<Status> missing;
  for (const CallInput& input : call.inputs) {
    GivenInput& given = inputs.emplace_back(GivenInput{&input, {}});
    if (input.kind != Kind::Tensor) continue;
    auto array = tensors_.array(input.tensor);
    if (array)
      given.array = *std::move(array);
    else if (!missing)
      missing = array.error();
  }
  for (const CallInput& input : call.inputs)
    if (input.moved) tensors_.drop(input.tensor);
  if (missing) return *missing;
  auto outputs = (*frame)->call(std::move(inputs));
  if (!outputs) {
    Status why = outputs.error();
    why.message = fmt::format("call {} of {}: {}", call.call, (*frame)->name(), why.message);
    return why;
  }
  if (outputs->arrays.size() > call.room ||
      (call.names != 0 && call.names != names_digest(outputs->names)))
    return bad_input(
        fmt::format("call {} of {} has other outputs than the controller took it to have; "
                    "wait for calls whose outputs depend on their sizes (settle())",
                    call.call, (*frame)->name()));
  return outputs;
}

void WorkerLoop::keep(const CallFrame& call, WorkerFrame::Outputs outputs) {
  const auto& frame = std::get<WorkerFrame>(frames_[static_cast<std::size_t>(call.frame)]);
  for (std::size_t i = 0; i < outputs.arrays.size(); ++i) {
    const auto added = tensors_.add(
        after(call.first, i),
        {std::move(outputs.arrays[i]), std::nullopt,
         fmt::format("{} of call {} of {}", outputs.names[i], call.call, frame.name())});
    if (!added) fail(added.error());
  }
  if (!call.tell || !lead_) return;
  Called told{call.call, outputs.entry, std::move(outputs.names), {}, {}};
  const auto* traced = outputs.entry ? frame.trace_of(*outputs.entry) : nullptr;
  if (traced != nullptr) told.traced = traced->asked, told.graph = traced->graph;
  lead_->send(std::move(told));
}

Result<void> WorkerLoop::on(const CallFrame& call) {
  ++calls_;
  tensors_.reserve(after(call.first, call.room));
  auto outputs = outputs_of(call);
  if (outputs) {
    keep(call, *std::move(outputs));
    return {};
  }
  const Status& why = outputs.error();
  if (ends_the_job(why.code)) return why;
  fail(why);
  // A controller that waits for the call does not use the handles.
  for (std::uint32_t i = 0; !call.tell && i < call.room && call.room <= kMostOutputs; ++i)
    (void)tensors_.add(after(call.first, i), {Array(), why, {}});
  if (call.tell) reply(Called{call.call, std::nullopt, {}, {}, {}});
  return {};
}

}  // namespace lockstep::worker
