// One frame of a job: every call goes through the agreement, then runs the entry that the group
// chose. What CompiledFrame (job.h) stands on, without the types of inputs and outputs.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <lockstep/shapes/shape_env.h>
#include <lockstep/worker/agreement/call_driver.h>
#include <lockstep/worker/execution/capture_options.h>
#include <lockstep/worker/graph/group.h>
#include <lockstep/worker/preview/infer.h>
#include <lockstep/worker/trace/inputs.h>
#include <lockstep/worker/trace/tracer.h>

namespace lockstep::worker {

struct JobContext;
struct FrameCounts;
struct CompileMark;

/// Who runs a frame, and what they agree on. The same on all ranks of the group.
struct FrameOptions {
  Group group{};                             // all ranks of the job, unless given
  std::optional<Consistency> consistency{};  // the job's, unless given
  /// Each rank decides as under local, but the frame may have collectives: before a program runs
  /// the ranks compare what each is about to run (audit.h). Programs that differ are logged, once,
  /// and run; collectives that would not match are an error on all ranks. Then `consistency` is
  /// not looked at.
  bool audit = false;
  /// Relations of sizes that hold in every call, in source names: "2 <= x.size(0)", "y.size(0) == 2
  /// * x.size(0)". Their dims are dynamic; a call that breaks one is CONSTRAINT_VIOLATION on all
  /// ranks; a function that needs less than the whole of a declared range is a trace error that
  /// says which line (constraints.h).
  std::vector<std::string> constraints{};
  /// What becomes of a branch on sizes that says more than a bound, a number or a remainder of one,
  /// or "a == k*b + c": a guard (other sizes compile anew), or an assert (one entry for all sizes
  /// that satisfy it; others are an error when the graph runs).
  shapes::ShapeOptions::Complex complex_branches = shapes::ShapeOptions::Complex::Guard;
  /// CUDA graphs of the frame's runs on a device; none unless given. On the host it goes unused.
  std::optional<CaptureOptions> recordings{};
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
  /// `body` records the frame into a trace. `inputs_bound` is called once a run has bound the
  /// inputs, and nothing else reads them any more. The outputs are in the order of the graph's.
  /// Errors: joint, see Job.
  [[nodiscard]] Result<std::vector<Array>> call(Observation observation,
                                                std::span<const InputValue> values,
                                                const std::function<void(Trace&)>& body,
                                                const std::function<void()>& inputs_bound);
  /// A call that this rank cannot make: tells all ranks, and gives the joint error. Where the
  /// others run a prefetched call meanwhile, the watchdog ends the job with `status`.
  [[nodiscard]] Status refuse(const Status& status);
  /// Commits to a call with these inputs, after those already committed to; its vote is cast as
  /// soon as the call before it has been agreed on. `unreadable`: the inputs cannot be read, which
  /// becomes the error of that call on all ranks.
  void prefetch(Observation observation, std::optional<Status> unreadable);
  /// The classes of sizes of `body`, for inputs like these (infer.h). No call: no other rank takes
  /// part, and nothing of the frame changes. Errors: BadInput.
  [[nodiscard]] Result<InferredFrame> infer(Observation observation,
                                            std::span<const InputValue> values,
                                            const std::function<void(Trace&)>& body,
                                            const InferOptions& options);
  /// What the last call took to agree: look-up, votes and exchanges, without trace and compile.
  [[nodiscard]] Duration last_agreement() const { return agreement_; }

  [[nodiscard]] const CallOutcome& last() const { return last_; }
  [[nodiscard]] std::string last_text() const;
  [[nodiscard]] const FrameCounts& counts() const;

 private:
  class Steps;
  struct Compiled;
  struct State;
  [[nodiscard]] const Status& unusable();
  [[nodiscard]] Status refuse_promised(const Status& status);
  void restore_profile(const Observation& observation);
  [[nodiscard]] CallOutcome agree(const Observation& observation, Steps& steps);
  /// Every so many calls that an entry serves, as the job's settings say. The error is joint.
  [[nodiscard]] std::optional<Status> check_captures(Steps& steps, const Compiled& entry);
  [[nodiscard]] std::optional<Status> audit(const Compiled* about_to_run, const Observation& seen);
  [[nodiscard]] Result<std::vector<Array>> run(Compiled& entry, const Observation& seen,
                                               std::span<const InputValue> values,
                                               const std::function<void()>& inputs_bound);
  /// Where calls are traced only: writes down the one that has just been agreed on, and what was
  /// found against it since.
  void tell_trace(const Compiled* traced, const std::optional<Status>& stopped = std::nullopt);
  [[nodiscard]] std::optional<std::vector<SymbolDecision>> known_symbols(
      const Observation& observation) const;
  [[nodiscard]] Result<InferredFrame> infer_over(
      Observation observation, std::span<const InputValue> values,
      const std::function<void(Trace&)>& body, const InferOptions& options,
      const std::optional<std::vector<SymbolDecision>>& symbols);
  [[nodiscard]] Result<std::vector<Array>> stand_in(const Graph& graph, const Inputs& inputs);
  [[nodiscard]] Result<void> tell_classes(const Observation& observation,
                                          std::span<const InputValue> values,
                                          const std::function<void(Trace&)>& body);
  void say_compiled(const Steps& steps);
  void say_advice(const CompileMark& mark, const Steps& steps);
  std::unique_ptr<State> state_;
  CallOutcome last_;
  Duration agreement_{0};
};

}  // namespace lockstep::worker
