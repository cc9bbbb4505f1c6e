// A frame of a saved program, as a controller calls it: with values by name.
#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

#include <lockstep/worker/controller/remote_calls.h>
#include <lockstep/worker/trace/tensor.h>

namespace lockstep::worker {

/// A tensor of the workers or of this process, or a number.
using RemoteValue = std::variant<Tensor, std::int64_t, double, bool>;

/// Borrows the controller.
class RemoteProgram {
 public:
  /// `shapes`: of the outputs, by entry, names in order.
  RemoteProgram(ControllerSession& session, const std::string& name, FrameNumber frame,
                std::vector<OutputShape> shapes)
      : calls_(session, name, frame), shapes_(std::move(shapes)) {}

  /// Gives back handles at once, where all entries have the same outputs; else at the end of the
  /// call. Errors: those of Controller.
  [[nodiscard]] Result<std::map<std::string, Tensor>> operator()(
      const std::map<std::string, RemoteValue>& inputs);

 private:
  RemoteCalls calls_;
  std::vector<OutputShape> shapes_;
};

}  // namespace lockstep::worker
