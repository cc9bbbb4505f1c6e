// One frame of a job: every call goes through the agreement, then runs the entry that the group
// chose. What CompiledFrame (job.h) stands on, without the types of inputs and outputs.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <lockstep/worker/call_driver.h>
#include <lockstep/worker/group.h>
#include <lockstep/worker/inputs.h>
#include <lockstep/worker/tracer.h>

namespace lockstep::worker {

struct JobContext;
struct FrameCounts;

/// Who runs a frame, and what they agree on. The same on all ranks of the group.
struct FrameOptions {
  Group group{};                             // all ranks of the job, unless given
  std::optional<Consistency> consistency{};  // the job's, unless given
  /// Each rank decides as under local, but the frame may have collectives: before a program runs
  /// the ranks compare what each is about to run (audit.h). Programs that differ are logged, once,
  /// and run; collectives that would not match are an error on all ranks. Then `consistency` is
  /// not looked at.
  bool audit = false;
};

/// One thread. Borrows the job's context.
class FrameRunner {
 public:
  FrameRunner(JobContext& job, std::string name, int index, const FrameOptions& options);
  ~FrameRunner();
  FrameRunner(const FrameRunner&) = delete;
  FrameRunner& operator=(const FrameRunner&) = delete;

  /// An observation whose memory is reused from call to call.
  [[nodiscard]] Observation take_observation();
  /// One call: agree, compile where needed, run. `values` are the inputs by number of their source;
  /// `body` records the frame into a trace. The outputs are in the order of the graph's.
  /// Errors: joint, see Job.
  [[nodiscard]] Result<std::vector<Array>> call(Observation observation,
                                                std::span<const InputValue> values,
                                                const std::function<void(Trace&)>& body);
  /// A call that this rank cannot make: tells all ranks, and gives the joint error.
  [[nodiscard]] Status refuse(const Status& status);

  [[nodiscard]] const CallOutcome& last() const { return last_; }
  [[nodiscard]] std::string last_text() const;
  [[nodiscard]] const FrameCounts& counts() const;

 private:
  class Steps;
  struct Compiled;
  struct State;
  [[nodiscard]] const Status& unusable();
  [[nodiscard]] std::optional<Status> audit(const Compiled* about_to_run, const Observation& seen);
  [[nodiscard]] Result<std::vector<Array>> run(Compiled& entry, const Observation& seen,
                                               std::span<const InputValue> values);
  void say_compiled(const std::vector<Misfit>& misfits, const std::string& story);
  std::unique_ptr<State> state_;
  CallOutcome last_;
};

}  // namespace lockstep::worker
