// A frame that was loaded from a saved program (worker/saved): called with values by name, since
// the function and its types of inputs and outputs are not there. Made by Job::load.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/worker/exchange/observation.h>
#include <lockstep/worker/frame.h>
#include <lockstep/worker/graph/own_op.h>
#include <lockstep/worker/saved/saved_program.h>

namespace lockstep::worker {

struct LoadOptions {
  Group group{};  // of the frame, as it was made with; all ranks of the job, unless given
  /// What the program uses of own ops and host calls (host_definition() makes the latter).
  std::vector<OwnDefinition> own_ops{};
  std::optional<CaptureOptions> recordings{};  // as FrameOptions
  /// The function did not use the number of ranks (Job::size()), which its graphs do not tell: a
  /// program without collectives of the frame's group and numbers of ranks runs on any number.
  bool other_ranks = false;
};

/// By source ("batch.tokens"). An int, float or bool input is a 0-d array; so is a field of ints or
/// bools, and one of text or bytes is u8[n].
using NamedValues = std::map<std::string, Array>;

/// Called like the frame that was saved. Borrows the job.
class LoadedFrame {
 public:
  /// Outputs by name. Inputs that the caller moves are freed during the run, each after its last
  /// reader. Errors, joint: those of a frame's call; BadInput where an input is missing, unknown or
  /// of another kind, and where no saved entry serves the sizes, with what does not fit.
  [[nodiscard]] Result<NamedValues> operator()(NamedValues inputs);
  /// In place of a call that this rank cannot make: all ranks get the error.
  [[nodiscard]] Status refuse(const Status& why);
  /// As CompiledFrame::prefetch.
  Result<void> prefetch(const NamedValues& next);
  /// As CompiledFrame::save.
  [[nodiscard]] Result<void> save(const std::string& path, const SaveOptions& options = {}) const;
  [[nodiscard]] const std::string& name() const { return name_; }
  /// What calls may give, entry by entry where these differ: sources with kinds, dtypes, dims.
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
  std::vector<std::shared_ptr<const SourceList>> lists_;  // distinct ones of the entries
  std::vector<FieldSpec> fields_;                         // of any entry, names unique
  std::vector<std::vector<std::string>> outputs_;         // names, by entry
  std::vector<InputValue> values_;
};

/// Job::load of the program, or of why there is none; messages call it `path`. `add` makes a frame
/// of the job.
[[nodiscard]] Result<LoadedFrame> load_frame(
    JobContext& job, Result<SavedProgram> program, const std::string& path,
    const LoadOptions& options,
    const std::function<FrameRunner&(std::string, const FrameOptions&)>& add);

}  // namespace lockstep::worker
