// The job, the interface of a training program. It joins the process to its peers, compiles frames
// so that all ranks run the same program, and ends with one error on all ranks if that is not
// possible.
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
#include <lockstep/worker/agree/process/settings.h>
#include <lockstep/worker/files/saved/saved_file.h>
#include <lockstep/worker/job/frame.h>
#include <lockstep/worker/job/loaded_frame.h>
#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/autodiff/control_flow.h>
#include <lockstep/worker/tensor/autodiff/custom_backward.h>
#include <lockstep/worker/tensor/bounded/dispatch.h>
#include <lockstep/worker/tensor/jagged/feature_exchange.h>
#include <lockstep/worker/tensor/jagged/padding.h>
#include <lockstep/worker/tensor/jagged/segments.h>
#include <lockstep/worker/tensor/language/collective_ops.h>
#include <lockstep/worker/tensor/language/inputs.h>
#include <lockstep/worker/tensor/language/movement_ops.h>
#include <lockstep/worker/tensor/language/order_ops.h>
#include <lockstep/worker/tensor/language/product_ops.h>
#include <lockstep/worker/tensor/language/random_ops.h>
#include <lockstep/worker/tensor/language/selection_ops.h>
#include <lockstep/worker/tensor/language/tensor_ops.h>
#include <lockstep/worker/tensor/layers/attention.h>
#include <lockstep/worker/tensor/layers/clipping.h>
#include <lockstep/worker/tensor/layers/convolution.h>
#include <lockstep/worker/tensor/layers/embeddings.h>
#include <lockstep/worker/tensor/layers/losses.h>
#include <lockstep/worker/tensor/layers/norms.h>
#include <lockstep/worker/tensor/layers/optimisers.h>
#include <lockstep/worker/tensor/layers/pooling.h>
#include <lockstep/worker/tensor/layers/schedules.h>
#include <lockstep/worker/tensor/trace/autocast.h>
#include <lockstep/worker/tensor/user_ops/host_call.h>
#include <lockstep/worker/tensor/user_ops/own_op.h>

namespace lockstep::worker {

/// Where the programs of a job run. The same on all ranks.
enum class Processor : std::uint8_t {
  Host,
  /// NVIDIA GPUs: kernels by NVRTC, matrix products by cuBLAS, collectives by NCCL, or through the
  /// host if ranks share a GPU or have no NCCL. Inputs may be on host or GPU; outputs stay on the
  /// GPU until the host reads them. Calls past the recompile limit run on the host.
  Cuda,
};

struct JobOptions {
  DecisionConfig decision;
  Processor processor = Processor::Host;
  /// Settings of the job; unless given, they come from the LOCKSTEP_* environment.
  std::optional<Settings> settings;
  /// Whether rank 0 prints the table at the end of the job.
  bool summary = true;
  /// Number of hits after which a frame's function is traced again, to find changes of captured
  /// variables (frame()); 0: never. Unless given, LOCKSTEP_CHECK_CAPTURES. The same on all ranks.
  std::optional<std::uint32_t> check_captures{};
  /// Called on the watchdog's thread, with the verdict, before the watchdog ends this process. May
  /// take a tenth of a second. May be null.
  std::function<void(const Status& verdict)> before_end{};
};

struct JobContext;
template <class In, class Out>
class CompiledFrame;

/// One per process and job. It takes one call at a time, from any thread; calls of its frames and
/// checkpoints count, too. A call during a call of another thread is BadInput on this rank alone,
/// and changes nothing. Ranks must make their calls in the same order, so a program with several
/// threads must keep the order equal on all ranks. If a job ends during a call of another thread,
/// the process ends, with the exit code of BadInput or of the error given to fail().
class Job {
 public:
  /// Joins the job of the launcher (mpirun, srun, torchrun) or of LOCKSTEP_RENDEZVOUS; without
  /// either it has one rank. Initialises MPI if ranks meet by it. Collective. Errors: BadInput (a
  /// LOCKSTEP_* variable; on this rank alone), ConfigMismatch (ranks with different settings or
  /// builds; joint), Environment (a rank without a GPU, if programs run on GPUs; joint). A joint
  /// error has been printed, once for all ranks, when init() returns; report() does not print it
  /// again.
  [[nodiscard]] static Result<std::unique_ptr<Job>> init(int* argc, char*** argv,
                                                         JobOptions options = {});
  /// As init(), for a process that has called MPI_Init itself, at any thread level:
  /// attach(MPI_COMM_WORLD). A program whose calls change threads asks MPI_Init_thread for
  /// MPI_THREAD_SERIALIZED or more. `comm` is an MPI_Comm, which is duplicated and otherwise not
  /// used.
  template <class MpiComm>
  [[nodiscard]] static Result<std::unique_ptr<Job>> attach(MpiComm comm, JobOptions options = {}) {
    return attach_to(&comm, std::move(options));
  }
  /// Unless the job has finished or failed, this rank leaves: peers get the error GONE at once or
  /// at their next round.
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /// Number of this rank, as in MPI; pass Rank{job.rank()} for a Rank, such as an owner or a root.
  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;

  /// A frame: a function that is traced, agreed on and compiled as a whole. `body` takes the inputs
  /// by value and returns the outputs; both are nested structs (inputs.h). The frame borrows the
  /// job.
  ///
  /// A variable that `body` captures, or reads in another way than through its argument, is a
  /// constant of the entry: it is read when the entry is traced, and later changes have no effect.
  /// A number that changes between calls must be an input (SymFloat or SymInt).
  /// JobOptions::check_captures looks for changes: on every N-th hit all ranks trace `body` again
  /// before the entry runs, so its host code (counters, prints, random numbers) runs again. If the
  /// trace differs from the entry, the call is TraceError on all ranks, with the first difference
  /// and its line, and the entry stays.
  ///
  /// All ranks make the same frames, each once, in the same order. A frame that a rank makes
  /// in another order is FrameMismatch at its first call. All calls of a frame are BadInput if its
  /// name was taken or it was made during a call of another thread.
  template <class In, class Out>
  [[nodiscard]] CompiledFrame<In, Out> frame(std::string name, std::function<Out(In)> body) {
    return frame<In, Out>(std::move(name), {}, std::move(body));
  }
  /// A frame for some of the ranks, or with its own consistency. Its calls are agreed and counted
  /// within the group; start and end of the job stay with all ranks. If ranks make it with
  /// different consistencies, its first call is FrameMismatch. A rank outside the group gets
  /// BadInput at every call, and no rank waits for it.
  template <class In, class Out>
  [[nodiscard]] CompiledFrame<In, Out> frame(std::string name, const FrameOptions& options,
                                             std::function<Out(In)> body) {
    return CompiledFrame<In, Out>(add_frame(std::move(name), options), std::move(body));
  }

  /// Makes a frame from a file that CompiledFrame::save or `lockstep trace --save` has written, in
  /// place of a function. Its graphs are agreed on and compiled before its first call. Collective
  /// over the ranks of the frame's group, which must be as many as saved it (but see
  /// LoadOptions::other_ranks). Each rank reads its own file; different programs are FrameMismatch.
  /// A call that no saved entry serves is BadInput on all ranks. Errors, joint: BadInput (a file
  /// that is missing, damaged or of another version; an own op that is not in `options`, or has
  /// another definition; a group that differs in this job; a name that is taken), FrameMismatch;
  /// those of a compile.
  [[nodiscard]] Result<LoadedFrame> load(const std::string& path, const LoadOptions& options = {});

  /// load() of a program that was not read from a file; messages name it `from`.
  [[nodiscard]] Result<LoadedFrame> load(Result<SavedProgram> program, const std::string& from,
                                         const LoadOptions& options = {});
  /// A frame whose function is in another process; `tracer` has it traced there.
  [[nodiscard]] FrameRunner& frame_traced_by(std::string name, DistantTracer tracer);

  /// Declares a group. Collective over all ranks of the job, which declare the same groups in the
  /// same order. Each rank gives the set to which it belongs, as ranks of the job (the ranks of one
  /// tensor-parallel group give {0,1}, those of another {2,3}), or an empty set. All sets of a name
  /// have the same size. Sets of different names may overlap. Errors, joint: BadInput (an empty
  /// name, a name that is taken, ranks outside the job, a set without this rank), ConfigMismatch
  /// with the table of all ranks' sets, Environment.
  [[nodiscard]] Result<Group> group(std::string name, const RankSet& members);

  /// Success if no rank has a local error now; else the joint error. For use before a checkpoint or
  /// before a collective of the program itself.
  [[nodiscard]] Result<void> settle();
  /// True on all ranks while some rank still has data. For ranks with different numbers of batches:
  ///   while (*job->more(have)) step(have ? batch : empty batch);
  /// A rank without data calls the frame with an empty batch (first dim 0) until no rank has data.
  [[nodiscard]] Result<bool> more(bool have);
  /// To be called after a joint error: brings ranks that made different numbers of calls back in
  /// step, in all groups. Frames and their entries stay; prefetches are dropped. Errors:
  /// FrameMismatch, with the rounds of the ranks that did not call resync().
  [[nodiscard]] Result<void> resync();
  /// Ends the job on all ranks, which compare the programs that they ran. Prints the summary.
  [[nodiscard]] Result<void> finish();
  /// Runs the program and ends the job: by finish() if the program succeeds. An error is printed;
  /// an exception is sent to all ranks. Returns the exit code of the process.
  [[nodiscard]] int run(const std::function<Result<void>()>& program);
  /// The state that the parts of a job share, for users such as checkpoints.h.
  [[nodiscard]] JobContext& context();
  /// Prints a joint error once for all ranks; returns the exit code of the process.
  int fail(const Status& status);
  /// Prints an error without a job; returns the exit code of the process.
  static int report(const Status& status);

 private:
  struct State;
  explicit Job(std::unique_ptr<State> state);
  [[nodiscard]] static Result<std::unique_ptr<Job>> attach_to(const void* comm, JobOptions options);
  [[nodiscard]] FrameRunner& add_frame(std::string name, const FrameOptions& options);
  /// Reports to the peers that this rank leaves, and `why`; returns the error that all ranks get.
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

  /// Inputs that the caller moves, as in step(std::move(input)), are freed during the run, each
  /// after its last reader. Errors: BadInput (this rank's inputs cannot be read), or the joint
  /// error of the call. After a joint error the next call works as if this call had not been made.
  [[nodiscard]] Result<Out> operator()(In in) {
    const auto turn = runner_->enter();
    if (!turn) return turn.error();
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
      release(in);
    };
    const auto outputs = runner_->call(std::move(observation), values_, record, inputs_bound);
    const CallOutcome& outcome = runner_->last();
    // A new entry stays even if its first run failed, for example by an assert on data.
    if (outcome.kind == CallOutcome::Kind::Compiled)
      results_.insert_or_assign(outcome.entry, *traced);
    if (!outputs) return outputs.error();
    if (outcome.kind == CallOutcome::Kind::Fallback) return filled_like(*traced, *outputs);
    return filled_like(results_.at(outcome.entry), *outputs);
  }

  /// Promises a later call with these inputs; the frame's calls must be made in the order of the
  /// promises. The vote of a promised call runs while the call before it runs, so the call itself
  /// hardly waits. Either every rank must promise the call or none. At the call, sizes, ints,
  /// bools, marks and fields must be the same; elements and floats may differ. A call that breaks
  /// its promise is BadInput on all ranks, and ends the job if the other ranks are already running.
  /// finish() drops promises that are left. Errors: BadInput during a call of another thread;
  /// nothing is then promised. Inputs that cannot be read are the error of the call.
  Result<void> prefetch(In next) {
    const auto turn = runner_->enter();
    if (!turn) return turn.error();
    Observation observation = runner_->take_observation();
    const auto read = read_inputs(next, observation);
    runner_->prefetch(std::move(observation),
                      read ? std::nullopt : std::optional<Status>(read.error()));
    return {};
  }
  /// Infers classes of sizes, each served by one entry, that together cover a box of sizes. Each
  /// class has its guards as text, the least example, the line that separates it from the others,
  /// and whether trace and run succeed (infer.h). The inputs of the examples are like `like`, and
  /// their elements are taken from it. Traces `body` once per class, so its host code runs again.
  /// This is no call: no other rank takes part, so any rank may use it at any time. Errors:
  /// BadInput.
  [[nodiscard]] Result<InferredFrame> infer(In like, const InferOptions& options = {}) {
    const auto turn = runner_->enter();
    if (!turn) return turn.error();
    Observation observation;
    InputTree tree = tree_.anew();
    std::vector<InputValue> values;
    if (auto read = flatten(like, tree, observation); !read) return read.error();
    input_values(like, tree, values);
    const auto record = [&](Trace& trace) {
      Out traced = body_(traced_like(like, tree, trace));
      add_outputs(traced, trace);
    };
    return runner_->infer(std::move(observation), values, record, options);
  }
  /// Writes this rank's entries of the frame to a file that Job::load, `lockstep run` and
  /// `lockstep show` read: graphs, guards, decisions and lines, no weights (worker/files/saved). No
  /// other rank takes part; ranks that run the same graphs write the same bytes. The file is
  /// written completely or not at all. Errors: BadInput before the first call; Environment.
  [[nodiscard]] Result<void> save(const std::string& path, const SaveOptions& options = {}) const {
    const auto turn = runner_->enter();
    if (!turn) return turn.error();
    const auto program = runner_->saved(options);
    if (!program) return program.error();
    return write_program(path, *program);
  }
  /// The time that the last call took to agree, without trace and compile; for a prefetched call,
  /// the time that it still waited for its vote.
  [[nodiscard]] Duration last_agreement() const { return runner_->last_agreement(); }

  /// True: the last call compiled a new entry.
  [[nodiscard]] bool last_compiled() const {
    return runner_->last().kind == CallOutcome::Kind::Compiled;
  }
  /// "[r0|0/1] reused"
  [[nodiscard]] std::string last_call() const { return runner_->last_text(); }

 private:
  [[nodiscard]] Result<void> read_inputs(In& in, Observation& observation) {
    try {
      return flatten(in, tree_, observation);
    } catch (const std::runtime_error& error) {  // a number cannot be read from a failed device
      return environment_error(error.what());
    }
  }

  FrameRunner* runner_;
  std::function<Out(In)> body_;
  InputTree tree_;
  std::vector<InputValue> values_;
  std::map<int, Out> results_;  // traced outputs, by entry; later outputs are filled like them
};

}  // namespace lockstep::worker
