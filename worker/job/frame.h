// One frame of a job: every call is agreed on, then runs the entry that the group chose. The part
// of CompiledFrame (job.h) that does not depend on the types of inputs and outputs.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <lockstep/collectives/base/turn.h>
#include <lockstep/shapes/shape_env.h>
#include <lockstep/worker/agree/agreement/action.h>
#include <lockstep/worker/compile/execution/capture_options.h>
#include <lockstep/worker/job/preview/infer.h>
#include <lockstep/worker/tensor/graph/group.h>
#include <lockstep/worker/tensor/language/inputs.h>
#include <lockstep/worker/tensor/trace/tracer.h>

namespace lockstep::worker {

struct JobContext;
struct FrameCounts;
struct SavedProgram;
struct CompileLabel;
class TraceSheet;

/// The ranks that run a frame, and what they must agree on. The same on all ranks of the group.
struct FrameOptions {
  Group group{};                             // all ranks of the job, unless given
  std::optional<Consistency> consistency{};  // the job's, unless given
  /// Each rank decides alone, as under Consistency::Local, but the frame may have collectives:
  /// before each run the ranks compare their programs (audit.h). Different programs are logged
  /// once, and still run; collectives that would not match are an error on all ranks. If set,
  /// `consistency` is ignored.
  bool audit = false;
  /// Relations of sizes that hold in every call, in source names: "2 <= x.size(0)", "y.size(0) == 2
  /// * x.size(0)". Their dims are dynamic. A call that breaks a relation is CONSTRAINT_VIOLATION on
  /// all ranks. If the function works for only a part of a declared range, that is a trace error
  /// with its line (constraints.h).
  std::vector<std::string> constraints{};
  /// How a complex branch on sizes is recorded. Simple branches are a bound, a number or a
  /// remainder of one size, and "a == k*b + c"; all others are complex. Guard: other sizes compile
  /// another entry. Assert: one entry for all sizes that satisfy the branch; other sizes are an
  /// error when the graph runs.
  shapes::ShapeOptions::Complex complex_branches = shapes::ShapeOptions::Complex::Guard;
  /// Options for capturing runs on a device as CUDA graphs; unless given, runs are not captured.
  /// Unused on the host.
  std::optional<CaptureOptions> recordings{};
  /// SavedProgram::joint_fingerprint() of a frame that Job::load makes.
  std::optional<shapes::Fingerprint> program{};
};

/// What CompiledFrame::save writes besides the programs.
struct SaveOptions {
  /// Write the compiled objects, too, so that the file can be loaded without a compiler on a
  /// processor of this kind. A job that loads them runs machine code of the file.
  bool objects = false;
};

/// A trace that was made in another process; equal on all ranks that agree on the call.
struct DistantTrace {
  Result<Graph> graph;
  /// Error of the round that sends the trace; if set, the call has ended.
  std::optional<Status> round_failed{};
};
/// Makes the trace of a frame whose function is in another process (worker/controller). Called on
/// all ranks of the frame's group at the same point of a call.
using DistantTracer = std::function<DistantTrace(const TraceSetup&)>;

/// One call at a time: the caller holds the turn of enter(). Borrows the job's context.
class FrameRunner {
 public:
  FrameRunner(JobContext& job, std::string name, int index, const FrameOptions& options);
  /// A frame that could not be made: `why` is the error of all its calls. Does not change the job.
  FrameRunner(JobContext& job, std::string name, const Status& why);
  ~FrameRunner();
  FrameRunner(const FrameRunner&) = delete;
  FrameRunner& operator=(const FrameRunner&) = delete;

  /// Takes the job's turn for an operation of the frame. Errors: BadInput (Turns::take).
  [[nodiscard]] Result<Turn> enter() const;
  /// An observation whose memory is reused from call to call.
  [[nodiscard]] Observation take_observation();
  /// One call: agree, compile if needed, run. `values`: the inputs by index of their source.
  /// `body` records the frame into a trace. `inputs_bound` is called once the run has bound the
  /// inputs and no other code reads them any more. Returns the outputs in the order of the graph's
  /// outputs. Errors: joint, see Job.
  [[nodiscard]] Result<std::vector<Array>> call(Observation observation,
                                                std::span<const InputValue> values,
                                                const std::function<void(Trace&)>& body,
                                                const std::function<void()>& inputs_bound);
  /// A call that this rank cannot make: sends `status` to all ranks and returns the joint error. If
  /// the other ranks are running a prefetched call, the watchdog ends the job with `status`.
  [[nodiscard]] Status refuse(const Status& status);
  /// Promises a call with these inputs, after the calls already promised. Its vote is cast as soon
  /// as the call before it is agreed. `unreadable`: the reason why the inputs cannot be read; it
  /// becomes the error of that call on all ranks.
  void prefetch(Observation observation, std::optional<Status> unreadable);
  /// The classes of sizes of `body`, for inputs like these (infer.h). This is no call: no other
  /// rank takes part, and the frame does not change. Errors: BadInput.
  [[nodiscard]] Result<InferredFrame> infer(Observation observation,
                                            std::span<const InputValue> values,
                                            const std::function<void(Trace&)>& body,
                                            const InferOptions& options);
  /// The entries that this rank has compiled, without superseded ones (saved_program.h). Errors:
  /// BadInput before the first call and on a rank outside the group; Environment if an object to be
  /// packed is not here and cannot be built.
  [[nodiscard]] Result<SavedProgram> saved(const SaveOptions& options) const;
  /// Starts from the entries of `program`, which was read from `path`, in place of a function.
  /// To be used before the frame's first call, on all ranks that agree on its calls; their programs
  /// have one joint fingerprint. The ranks build the entries together. Errors: joint.
  [[nodiscard]] Result<void> start_from(SavedProgram program, const std::string& path);
  /// To be called before the first call: from then on `tracer` traces the function. The bodies
  /// given to calls are not used, and captured variables are not checked.
  void trace_by(DistantTracer tracer);
  /// The time that the last call took to agree: look-up, votes and exchanges, without trace and
  /// compile.
  [[nodiscard]] Duration last_agreement() const { return agreement_; }

  [[nodiscard]] const CallOutcome& last() const { return last_; }
  [[nodiscard]] std::string last_text() const;
  [[nodiscard]] const FrameCounts& counts() const;

 private:
  class Steps;
  struct Compiled;
  struct State;
  [[nodiscard]] const Status& unusable();
  void restore_profile(const Observation& observation);
  [[nodiscard]] CallOutcome agree(const Observation& observation, Steps& steps);
  /// On every N-th hit, N from the job's settings, traces the function again and compares. The
  /// error is joint.
  [[nodiscard]] std::optional<Status> check_captures(Steps& steps, const Compiled& entry);
  [[nodiscard]] std::optional<Status> audit(const Compiled* about_to_run, const Observation& seen);
  [[nodiscard]] Result<std::vector<Array>> run(Compiled& entry, const Observation& seen,
                                               std::span<const InputValue> values,
                                               const std::function<void()>& inputs_bound);
  /// In jobs that only trace (`lockstep trace`): writes the call that has just been agreed, and its
  /// error, if any.
  void write_trace(const Compiled* traced, const std::optional<Status>& stopped = std::nullopt);
  /// In jobs that save their traces: writes the program so far.
  void save_traced(TraceSheet& sheet) const;
  [[nodiscard]] std::optional<std::vector<SymbolDecision>> known_symbols(
      const Observation& observation) const;
  [[nodiscard]] Result<InferredFrame> infer_over(
      Observation observation, std::span<const InputValue> values,
      const std::function<void(Trace&)>& body, const InferOptions& options,
      const std::optional<std::vector<SymbolDecision>>& symbols);
  [[nodiscard]] Result<std::vector<Array>> stand_in(const Graph& graph, const Inputs& inputs);
  [[nodiscard]] Result<void> write_classes(const Observation& observation,
                                           std::span<const InputValue> values,
                                           const std::function<void(Trace&)>& body);
  void say_compiled(const Steps& steps);
  void say_loaded(int entry, const Steps& steps);
  void say_advice(const CompileLabel& mark, const Steps& steps);
  std::unique_ptr<State> state_;
  CallOutcome last_;
  Duration agreement_{0};
};

}  // namespace lockstep::worker
