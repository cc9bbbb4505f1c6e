// Makes the calls of one frame, with handles of inputs and outputs. Independent of their C++ types.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <lockstep/worker/controller/controller_session.h>
#include <lockstep/worker/controller/remote_inputs.h>

namespace lockstep::worker {

/// The outputs of an entry as the controller knows them.
struct OutputShape {
  std::vector<std::string> names;  // in the order of the program
  std::vector<DType> dtypes;
};
[[nodiscard]] OutputShape output_shape(const Graph& graph);

/// Callers hold the session's turn, so calls never overlap. Borrows the session.
class RemoteCalls {
 public:
  RemoteCalls(ControllerSession& session, std::string name, FrameNumber frame)
      : session_(session), name_(std::move(name)), frame_(frame) {}

  /// Puts the process's own tensors on the workers. Marks as moved the inputs whose last reference
  /// the walk has released.
  [[nodiscard]] Result<void> prepare(RemoteInputs& inputs);
  /// Makes a call whose outputs are known. Returns their tensors at once.
  [[nodiscard]] Result<std::vector<Array>> issue(RemoteInputs inputs, const OutputShape& shape);
  /// Makes a call and waits for its end. From `called` the caller finds the shape for outputs().
  struct Ended {
    Called called;
    Handle first{};
  };
  [[nodiscard]] Result<Ended> run(RemoteInputs inputs);
  /// Returns the outputs of a call that has ended.
  [[nodiscard]] Result<std::vector<Array>> outputs(const Ended& ended, const OutputShape& shape);
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] FrameNumber number() const { return frame_; }
  [[nodiscard]] ControllerSession& session() const { return session_; }

 private:
  void claim_moved(RemoteInputs& inputs);
  [[nodiscard]] Result<void> put_own(CallInput& input, const Array& array);
  void drop_moved(const std::vector<CallInput>& inputs);
  [[nodiscard]] CallFrame call_of(RemoteInputs inputs);
  [[nodiscard]] std::string what(std::uint64_t call) const {
    return fmt::format("call {} of {}", call, name_);
  }
  [[nodiscard]] std::vector<Array> arrays(Handle first, const OutputShape& shape) const;
  ControllerSession& session_;
  std::string name_;
  FrameNumber frame_;
};

}  // namespace lockstep::worker
