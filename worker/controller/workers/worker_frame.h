// A frame of the workers' job, which the controller calls with inputs by name. Its function is with
// the controller or in a saved program.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <lockstep/worker/controller/messages/reply.h>
#include <lockstep/worker/job/job.h>

namespace lockstep::worker {

/// An input of a call.
struct GivenInput {
  const CallInput* what = nullptr;
  Array array;  // the tensor, if the input is one
};

/// Single-threaded. Borrows the job. Calls are collective.
class WorkerFrame {
 public:
  explicit WorkerFrame(LoadedFrame loaded, std::string digest)
      : program_(std::move(loaded)), digest_(std::move(digest)) {}
  /// A frame run by `made`; after each of its traces the owner calls traced().
  WorkerFrame(FrameRunner& made, std::string name) : runner_(&made), name_(std::move(name)) {}

  /// How an entry was traced, by this controller or an earlier one.
  struct Traced {
    TraceRequest asked;
    shapes::Fingerprint graph;
    std::vector<std::string> outputs;  // names, in order
  };
  struct Outputs {
    std::vector<Array> arrays;
    std::vector<std::string> names;
    std::optional<int> entry;  // nullopt: interpreted
  };
  /// Errors: joint, as those of a frame's call.
  [[nodiscard]] Result<Outputs> call(std::vector<GivenInput> inputs);
  /// Fails a call that this worker cannot make: all workers get the error.
  [[nodiscard]] Status refuse(const Status& why);

  [[nodiscard]] const std::string& name() const { return program_ ? program_->name() : name_; }
  /// Digest of the program; empty: the controller traces.
  [[nodiscard]] const std::string& digest() const { return digest_; }
  /// Sets the result of a trace within the call under way.
  void traced(Traced made) { traced_ = std::move(made); }
  /// Null if the entry came with a program.
  [[nodiscard]] const Traced* trace_of(int entry) const;

 private:
  [[nodiscard]] Result<Outputs> call_program(std::vector<GivenInput> inputs);
  [[nodiscard]] Result<void> observe(std::vector<GivenInput>& inputs, Observation& out);

  std::optional<LoadedFrame> program_;  // nullopt: the controller traces
  std::string digest_;
  FrameRunner* runner_ = nullptr;
  std::string name_;
  std::shared_ptr<const SourceList> list_;  // source list of the last call
  std::vector<InputValue> values_;
  Traced traced_;                  // the latest
  std::map<int, Traced> entries_;  // by number
};

}  // namespace lockstep::worker
