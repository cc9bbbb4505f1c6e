// The tensors that a worker holds for the controller, by their handles. All workers hold the same
// handles, each with its own tensor.
#pragma once

#include <map>
#include <optional>
#include <string>

#include <lockstep/worker/controller/speech/reply.h>
#include <lockstep/worker/graph/array.h>

namespace lockstep::worker {

/// One thread.
class TensorTable {
 public:
  /// A tensor, or why there is none: the same on all workers, but that a tensor which the
  /// controller gives worker by worker is empty where it has not come yet.
  struct Slot {
    Array array;
    std::optional<Status> failure;
    std::string label;
  };
  /// Errors: BadInput (the handle is taken).
  [[nodiscard]] Result<void> add(Handle handle, Slot slot);
  /// The slot of a handle that was given worker by worker; made where it is not there.
  [[nodiscard]] Slot& shared(Handle handle, const std::string& label);
  /// Null: there is no such handle.
  [[nodiscard]] Slot* find(Handle handle);
  /// The tensor, or why there is none.
  [[nodiscard]] Result<Array> array(Handle handle);
  void drop(Handle handle) { slots_.erase(handle); }
  /// Handles below are not given out again.
  [[nodiscard]] Handle next() const { return next_; }
  void reserve(Handle below) { next_ = std::max(next_, below); }
  /// Those that are there, without failures.
  [[nodiscard]] std::vector<HeldTensor> held() const;

 private:
  std::map<Handle, Slot> slots_;
  Handle next_{1};
};

}  // namespace lockstep::worker
