// The job: what a training program talks to. Joins the process to its peers, compiles its frames so
// that all ranks run the same program, and ends with one error for all where that is not possible.
//
//   auto job = Job::init(&argc, &argv);
//   if (!job) return Job::report(job.error());
//   auto step = (*job)->frame<Input, Output>("step", [](Input in) { return Output{...}; });
//   return (*job)->run([&]() -> Result<void> {
//     for (...) { auto out = step(input); if (!out) return out.error(); ... }
//     return {};
//   });
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/collectives/base/status.h>
#include <lockstep/worker/frame.h>
#include <lockstep/worker/process/settings.h>
#include <lockstep/worker/trace/autodiff.h>
#include <lockstep/worker/trace/collective_ops.h>
#include <lockstep/worker/trace/inputs.h>
#include <lockstep/worker/trace/selection_ops.h>
#include <lockstep/worker/trace/tensor_ops.h>

namespace lockstep::worker {

/// Where the programs of a job run. The same on all ranks.
enum class Processor : std::uint8_t {
  Host,
  /// NVIDIA GPUs: kernels by NVRTC, products by cuBLAS, collectives by NCCL; by way of the host
  /// where ranks share a GPU or have no NCCL. Inputs are taken from where they are; outputs stay on
  /// the GPU until the host looks at them. What goes past the recompile limit runs on the host.
  Cuda,
};

struct JobOptions {
  DecisionConfig decision;
  Processor processor = Processor::Host;
  /// What the LOCKSTEP_* environment says, unless given.
  std::optional<Settings> settings;
  /// The table at the end of the job, on rank 0.
  bool summary = true;
  /// Every so many calls of a frame that an entry serves, its function is traced again, for
  /// variables that it captured and that have changed (frame()); 0: never. Unless given, what
  /// LOCKSTEP_CHECK_CAPTURES says. The same on all ranks.
  std::optional<std::uint32_t> check_captures{};
};

template <class In, class Out>
class CompiledFrame;

/// One per process and job. One thread: the one that made it makes all calls.
class Job {
 public:
  /// Joins the job that mpirun started (a process that nobody started so is a job of one rank).
  /// Initialises MPI where nobody has. Collective.
  /// Errors, joint but for the first: BadInput (a LOCKSTEP_* variable), ConfigMismatch (ranks with
  /// other settings or another build), Environment (no GPU on some rank, where programs are to run
  /// on one). A joint one has been printed, once for all ranks, when this returns; report() does
  /// not print it again.
  [[nodiscard]] static Result<std::unique_ptr<Job>> init(int* argc, char*** argv,
                                                         JobOptions options = {});
  /// Joins a process that has called MPI_Init itself, at any thread level: attach(MPI_COMM_WORLD).
  /// `comm` is an MPI_Comm, duplicated and otherwise left alone.
  template <class MpiComm>
  [[nodiscard]] static Result<std::unique_ptr<Job>> attach(MpiComm comm, JobOptions options = {}) {
    return attach_to(&comm, std::move(options));
  }
  /// A job that was neither finished nor failed leaves: its peers hear of it at their next round.
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;

  /// A frame: a function that is traced, agreed on and compiled as a whole. `body` takes the inputs
  /// by value and returns the outputs; both are nested structs (inputs.h). The frame borrows the
  /// job.
  ///
  /// What `body` captures, or reads in any way but through its argument, is a constant of the entry
  /// that is traced: it is read when an entry is made, and a later change is not seen. What changes
  /// between calls is an input: SymFloat or SymInt for a number. JobOptions::check_captures looks:
  /// on every N-th call that an entry serves, all ranks trace `body` again before it runs, so its
  /// host code (counters, prints, random numbers) runs again, too. Where it records anything else
  /// than the entry has, the call is TraceError on all ranks, with the first difference and its
  /// line, and the entry stays as it is.
  ///
  /// All ranks make the same frames, each once, in the same order: a frame made in another
  /// place on some rank is FrameMismatch at its first call, one whose name is taken BadInput.
  template <class In, class Out>
  [[nodiscard]] CompiledFrame<In, Out> frame(std::string name, std::function<Out(In)> body) {
    return frame<In, Out>(std::move(name), {}, std::move(body));
  }
  /// The same for some of the ranks, or with a consistency of its own: its calls are agreed in the
  /// group alone, and counted there; start and end stay with all ranks. Ranks that make it with
  /// another consistency get FrameMismatch at its first call; a rank that is no member of the group
  /// gets BadInput at every call, and nobody waits for it.
  template <class In, class Out>
  [[nodiscard]] CompiledFrame<In, Out> frame(std::string name, const FrameOptions& options,
                                             std::function<Out(In)> body) {
    return CompiledFrame<In, Out>(add_frame(std::move(name), options), std::move(body));
  }

  /// Declares a group. Collective over all ranks of the job, which declare the same groups in the
  /// same order. Each rank gives the set that it belongs to, as ranks of the job (all ranks of
  /// one tensor-parallel group give {0,1}, those of another {2,3}), or an empty one. All sets of a
  /// name have one size. Sets of different names may overlap.
  /// Errors, joint: BadInput (no name, one that is taken, ranks that the job does not have, a set
  /// without this rank), ConfigMismatch with the table of who gave what, Environment.
  [[nodiscard]] Result<Group> group(std::string name, const RankSet& members);

  /// Whether all ranks are well, now: before a collective of the program's own, or a checkpoint.
  [[nodiscard]] Result<void> settle();
  /// Whether any rank still has data; for ranks with different numbers of batches:
  ///   while (*job->more(have)) step(have ? batch : empty batch);
  /// A rank that has none calls the frame with an empty batch (its first dim 0) until all are done.
  [[nodiscard]] Result<bool> more(bool have);
  /// After an error that all ranks have: brings ranks that made different calls into step again, in
  /// all groups. Frames and what they compiled stay; prefetches are dropped. Errors: FrameMismatch,
  /// saying where the ranks are that are in no resync.
  [[nodiscard]] Result<void> resync();
  /// The end of the job, on all ranks: they compare what they ran. Prints the summary.
  [[nodiscard]] Result<void> finish();
  /// Runs the program and ends the job: finish() where it succeeds. An error is printed, an
  /// exception told to all ranks. Returns the exit code of the process.
  [[nodiscard]] int run(const std::function<Result<void>()>& program);
  /// Prints a joint error once for all ranks; returns the exit code of the process.
  int fail(const Status& status);
  /// The same where there is no job yet.
  static int report(const Status& status);

 private:
  struct State;
  explicit Job(std::unique_ptr<State> state);
  [[nodiscard]] static Result<std::unique_ptr<Job>> attach_to(const void* comm, JobOptions options);
  [[nodiscard]] FrameRunner& add_frame(std::string name, const FrameOptions& options);
  /// Tells the peers; returns the error as they see it.
  Status leave(const std::string& why);
  std::unique_ptr<State> state_;
};

/// A frame of the job, with the types of its inputs and outputs. Called like the function it was
/// made from.
template <class In, class Out>
class CompiledFrame {
 public:
  CompiledFrame(FrameRunner& runner, std::function<Out(In)> body)
      : runner_(&runner), body_(std::move(body)) {}

  /// Inputs that the caller gives away, as in step(std::move(input)), are freed within the run:
  /// each after the step that reads it last. Errors: BadInput (this rank's inputs cannot be read),
  /// or the joint error of the call; after a joint error the next call goes on as if this one had
  /// not been made.
  [[nodiscard]] Result<Out> operator()(In in) {
    Observation observation = runner_->take_observation();
    if (auto read = read_inputs(in, observation); !read) return runner_->refuse(read.error());
    input_values(in, tree_, values_);
    std::optional<Out> traced;
    const auto record = [&](Trace& trace) {
      traced = body_(traced_like(in, tree_, trace));
      add_outputs(*traced, trace);
    };
    const auto inputs_bound = [&] {
      values_.clear();
      if constexpr (std::is_default_constructible_v<In> && std::is_move_assignable_v<In>) in = In();
    };
    const auto outputs = runner_->call(std::move(observation), values_, record, inputs_bound);
    const CallOutcome& outcome = runner_->last();
    // A new entry stays also where its first run failed, as on data that an assert refuses.
    if (outcome.kind == CallOutcome::Kind::Compiled)
      results_.insert_or_assign(outcome.entry, *traced);
    if (!outputs) return outputs.error();
    if (outcome.kind == CallOutcome::Kind::Fallback) return filled_like(*traced, *outputs);
    return filled_like(results_.at(outcome.entry), *outputs);
  }

  /// Commits to a call with these inputs, after the calls already committed to: the frame's next
  /// calls have them in this order. The vote of the first is under way from when the call before it
  /// has been agreed on, while that one runs; then the call itself hardly waits. For every rank or
  /// none. Sizes, ints, bools and marks must be the same at the call; elements and floats may
  /// differ. A call that breaks a commitment is BadInput, of all ranks, and ends the job where the
  /// others run meanwhile. Commitments that finish() comes before are dropped.
  void prefetch(In next) {
    Observation observation = runner_->take_observation();
    const auto read = read_inputs(next, observation);
    runner_->prefetch(std::move(observation),
                      read ? std::nullopt : std::optional<Status>(read.error()));
  }
  /// The classes of sizes that one entry of the frame serves each, as a cover of a box: guards as
  /// text, the least example, the line that parts it from the others, and whether trace and run go
  /// well there (infer.h). For inputs like `like`, whose elements the examples are made of. Traces
  /// `body` once per class, so its host code runs again. No call: no other rank takes part, so any
  /// rank may ask at any time. Errors: BadInput.
  [[nodiscard]] Result<InferredFrame> infer(In like, const InferOptions& options = {}) {
    Observation observation;
    InputTree tree;
    std::vector<InputValue> values;
    if (auto read = flatten(like, tree, observation); !read) return read.error();
    input_values(like, tree, values);
    const auto record = [&](Trace& trace) {
      Out traced = body_(traced_like(like, tree, trace));
      add_outputs(traced, trace);
    };
    return runner_->infer(std::move(observation), values, record, options);
  }
  /// What the last call took to agree, without trace and compile: where it was prefetched, the rest
  /// of its vote.
  [[nodiscard]] Duration last_agreement() const { return runner_->last_agreement(); }

  /// Whether the last call compiled a new entry.
  [[nodiscard]] bool last_compiled() const {
    return runner_->last().kind == CallOutcome::Kind::Compiled;
  }
  /// "[r0|0/1] reused"
  [[nodiscard]] std::string last_call() const { return runner_->last_text(); }

 private:
  [[nodiscard]] Result<void> read_inputs(In& in, Observation& observation) {
    try {
      return flatten(in, tree_, observation);
    } catch (const std::runtime_error& error) {  // a number on a device that has failed
      return Status{Code::Environment, error.what(), {}, {}};
    }
  }

  FrameRunner* runner_;
  std::function<Out(In)> body_;
  InputTree tree_;
  std::vector<InputValue> values_;
  std::map<int, Out> results_;  // per entry: the traced outputs, which later ones are shaped like
};

}  // namespace lockstep::worker
