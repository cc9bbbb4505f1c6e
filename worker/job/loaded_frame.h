// A frame that was loaded from a saved program (worker/files/saved): called with values by name,
// since there is no function with types of inputs and outputs. Made by Job::load.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/worker/agree/exchange/observation.h>
#include <lockstep/worker/files/saved/saved_program.h>
#include <lockstep/worker/job/frame.h>
#include <lockstep/worker/tensor/graph/own_op.h>

namespace lockstep::worker {

struct LoadOptions {
  Group group{};  // of the frame, as when it was saved; all ranks of the job, unless given
  /// The own ops and host calls that the program uses (host_definition() makes the latter).
  std::vector<OwnDefinition> own_ops{};
  std::optional<CaptureOptions> recordings{};  // as FrameOptions
  /// True: the caller states that the function did not use the number of ranks (Job::size()); its
  /// graphs do not show this. Then a program without collectives of the frame's group and without
  /// rank numbers runs on any number of ranks.
  bool other_ranks = false;
};

/// Values by source ("batch.tokens"). An int, float or bool input is a 0-d array, and so is an int
/// or bool field. A text or bytes field is u8[n].
using NamedValues = std::map<std::string, Array>;

/// Called like the frame that was saved. Borrows the job.
class LoadedFrame {
 public:
  /// Makes a call; returns the outputs by name. Inputs that the caller moves are freed during the
  /// run, each after its last reader. Errors, joint: those of a frame's call; BadInput, with the
  /// reasons, if an input is missing, unknown or of another kind, or no saved entry serves the
  /// sizes.
  [[nodiscard]] Result<NamedValues> operator()(NamedValues inputs);
  /// To be called in place of a call that this rank cannot make. All ranks get the error `why`;
  /// returns the joint error.
  [[nodiscard]] Status refuse(const Status& why);
  /// As CompiledFrame::prefetch.
  Result<void> prefetch(const NamedValues& next);
  /// As CompiledFrame::save.
  [[nodiscard]] Result<void> save(const std::string& path, const SaveOptions& options = {}) const;
  [[nodiscard]] const std::string& name() const { return name_; }
  /// The distinct lists of inputs of the entries: sources with kinds, dtypes, dims.
  [[nodiscard]] const std::vector<std::shared_ptr<const SourceList>>& inputs() const {
    return lists_;
  }
  [[nodiscard]] Duration last_agreement() const { return runner_->last_agreement(); }
  /// "[r0|0/1] reused"
  [[nodiscard]] std::string last_call() const { return runner_->last_text(); }

 private:
  friend Result<LoadedFrame> load_frame(
      JobContext& job, Result<SavedProgram> program, const std::string& path,
      const LoadOptions& options,
      const std::function<FrameRunner&(std::string, const FrameOptions&)>& add);
  LoadedFrame() = default;
  [[nodiscard]] Result<void> read(const NamedValues& inputs, Observation& observation,
                                  std::vector<InputValue>& values) const;

  FrameRunner* runner_ = nullptr;
  std::string name_;
  std::vector<std::shared_ptr<const SourceList>> lists_;  // distinct lists of the entries
  std::vector<FieldSpec> fields_;                         // of any entry, names unique
  std::vector<std::vector<std::string>> outputs_;         // names, by entry
  std::vector<InputValue> values_;
};

/// Implements Job::load. `program` may be the error of reading the program; messages name the
/// program `path`. `add` makes a frame of the job.
[[nodiscard]] Result<LoadedFrame> load_frame(
    JobContext& job, Result<SavedProgram> program, const std::string& path,
    const LoadOptions& options,
    const std::function<FrameRunner&(std::string, const FrameOptions&)>& add);

}  // namespace lockstep::worker
