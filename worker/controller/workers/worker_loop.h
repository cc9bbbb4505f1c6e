// The loop of a worker: it does the controller's commands in order; worker 0 broadcasts them to the
// others. All workers do the same commands, and a command that fails on one worker fails on all.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <variant>

#include <lockstep/worker/controller/workers/lead.h>
#include <lockstep/worker/controller/workers/tensor_table.h>
#include <lockstep/worker/controller/workers/worker_frame.h>

namespace lockstep::worker {

/// One per worker. Runs on the job's thread.
class WorkerLoop {
 public:
  /// `lead` is null except on worker 0.
  WorkerLoop(Job& job, std::unique_ptr<Lead> lead);
  ~WorkerLoop();
  /// Does commands until the controller ends the job. Collective. Errors, joint: Gone (there was no
  /// controller for too long); the error of a call after which no other call is possible.
  [[nodiscard]] Result<void> run();

 private:
  using FrameSlot = std::variant<WorkerFrame, Status>;

  /// Returns the next commands, on all workers. An empty list only shows the other workers that
  /// worker 0 is alive.
  [[nodiscard]] Result<std::vector<Command>> next();
  [[nodiscard]] Held held() const;

  // One function for each command. A returned error ends the job; fail() reports any other failure.
  [[nodiscard]] Result<void> on(const Hello&) { return {}; }
  [[nodiscard]] Result<void> on(const TraceAnswer&) { return {}; }
  [[nodiscard]] Result<void> on(const PutTensor& put);
  [[nodiscard]] Result<void> on(const ReadTensors& read);
  [[nodiscard]] Result<void> on(const ShipProgram& ship);
  [[nodiscard]] Result<void> on(const LoadFrame& load);
  [[nodiscard]] Result<void> on(const MakeFrame& make);
  [[nodiscard]] Result<void> on(const CallFrame& call);
  [[nodiscard]] Result<void> on(const DropHandles& drop);
  [[nodiscard]] Result<void> on(const FetchTensor& fetch);
  [[nodiscard]] Result<void> on(const AskSizes& ask);
  [[nodiscard]] Result<void> on(const Settle& settle);
  [[nodiscard]] Result<void> on(const Finish& finish);
  [[nodiscard]] Result<void> on(const EndJob& end) { return end.why; }

  [[nodiscard]] Result<WorkerFrame*> frame_of(const CallFrame& call);
  [[nodiscard]] Result<WorkerFrame::Outputs> outputs_of(const CallFrame& call);
  void keep(const CallFrame& call, WorkerFrame::Outputs outputs);
  [[nodiscard]] DistantTrace trace(FrameNumber frame, const TraceSetup& setup);
  /// Gives `asked` a number; worker 0 sends it. Returns the controller's answer on all workers.
  [[nodiscard]] Result<TraceAnswer> ask_for_trace(TraceRequest& asked, const TraceSetup& setup);
  [[nodiscard]] TensorAnswer own_answer(const FetchTensor& fetch, const Array& array) const;
  void fail(const Status& why) { reply(Failed{why}); }
  void reply(const Reply& reply) {
    if (lead_) lead_->send(reply);
  }
  [[nodiscard]] collectives::Communicator& workers() const;

  Job& job_;
  std::unique_ptr<Lead> lead_;
  TensorTable tensors_;
  std::map<std::string, std::string> programs_;  // encoded, by digest
  std::deque<FrameSlot> frames_;                 // by number; Status: why there is none
  std::uint64_t calls_ = 0, questions_ = 0;
  bool greets_ = false;  // a controller has connected and waits for Held
  bool over_ = false;
};

}  // namespace lockstep::worker
