// A frame of a saved program, which a controller calls with values by name.
#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

#include <lockstep/worker/controller/remote_calls.h>
#include <lockstep/worker/files/saved/saved_program.h>
#include <lockstep/worker/tensor/trace/tensor.h>

namespace lockstep::worker {

/// A tensor of the workers or of this process, or a number.
using RemoteValue = std::variant<Tensor, std::int64_t, double, bool>;

/// The inputs and outputs of calls of a saved program.
struct ProgramShape {
  std::vector<std::vector<SourceSpec>> inputs;  // distinct input lists; each is sorted by name
  std::vector<OutputShape> outputs;             // one per entry; names are sorted
};
[[nodiscard]] ProgramShape program_shape(const SavedProgram& program);

/// Borrows the controller.
class RemoteProgram {
 public:
  RemoteProgram(ControllerSession& session, const std::string& name, FrameNumber frame,
                ProgramShape shape)
      : calls_(session, name, frame), shape_(std::move(shape)) {}

  /// Returns handles at once if all entries have the same outputs; else at the end of the call.
  /// Tensors that the caller moves are freed on the workers during the run. An integer given for a
  /// float is converted. Errors: BadInput, before anything is sent, if an input is missing,
  /// unknown, or of another kind or dtype; those of Controller.
  [[nodiscard]] Result<std::map<std::string, Tensor>> operator()(
      std::map<std::string, RemoteValue> inputs);
  [[nodiscard]] const std::string& name() const { return calls_.name(); }
  [[nodiscard]] const ProgramShape& shape() const { return shape_; }
  /// "step: n int, x f64 of 1 dim -> a f64, y f64"
  [[nodiscard]] std::string text() const;

 private:
  [[nodiscard]] Result<void> fit(std::map<std::string, RemoteValue>& inputs) const;

  RemoteCalls calls_;
  ProgramShape shape_;
};

}  // namespace lockstep::worker
