// The tensors that a worker holds for the controller, by handle. All workers hold the same handles,
// each with its own tensor.
#pragma once

#include <map>
#include <optional>
#include <string>

#include <lockstep/worker/controller/messages/reply.h>
#include <lockstep/worker/tensor/graph/array.h>

namespace lockstep::worker {

/// Single-threaded.
class TensorTable {
 public:
  /// A tensor, or why there is none. The reason is the same on all workers. A tensor put worker by
  /// worker is empty until this worker's tensor has arrived.
  struct Slot {
    Array array;
    std::optional<Status> failure;
    std::string label;
  };
  /// Errors: BadInput (the handle is taken).
  [[nodiscard]] Result<void> add(Handle handle, Slot slot);
  /// Returns the slot of a handle that is put worker by worker; makes it if it does not exist.
  [[nodiscard]] Slot& shared(Handle handle, const std::string& label);
  /// Null if there is no such handle.
  [[nodiscard]] Slot* find(Handle handle);
  /// Returns the tensor, or why there is none.
  [[nodiscard]] Result<Array> array(Handle handle);
  void drop(Handle handle) { slots_.erase(handle); }
  /// Returns the lowest handle that was never assigned or reserved.
  [[nodiscard]] Handle next() const { return next_; }
  void reserve(Handle below) { next_ = std::max(next_, below); }
  /// Returns the tensors without failures.
  [[nodiscard]] std::vector<HeldTensor> held() const;

 private:
  std::map<Handle, Slot> slots_;
  Handle next_{1};
};

}  // namespace lockstep::worker
