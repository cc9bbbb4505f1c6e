// A tensor of the workers as the controller sees it: a handle. Only the workers have its sizes and
// elements.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <lockstep/worker/controller/messages/numbers.h>
#include <lockstep/worker/tensor/graph/array.h>

namespace lockstep::worker {

/// Handles without references that the workers have not been told to drop yet. Usable on any
/// thread, because the last copy of a tensor may be destroyed on any.
class DroppedHandles {
 public:
  void add(Handle handle) {
    const std::scoped_lock lock(mutex_);
    handles_.push_back(handle);
  }
  /// Removes `handle` from the list; returns false if it was not in it.
  [[nodiscard]] bool take(Handle handle);
  [[nodiscard]] std::vector<Handle> take_all() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(handles_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<Handle> handles_;
};

/// The far memory of a tensor that the workers hold. They hold it until the last copy of the tensor
/// in this process is destroyed.
class RemoteTensor final : public DeviceMemory {
 public:
  RemoteTensor(Handle handle, std::shared_ptr<DroppedHandles> dropped)
      : handle_(handle), dropped_(std::move(dropped)) {}
  ~RemoteTensor() override { dropped_->add(handle_); }
  RemoteTensor(const RemoteTensor&) = delete;
  RemoteTensor& operator=(const RemoteTensor&) = delete;

  [[nodiscard]] Handle handle() const { return handle_; }
  /// True if the tensor belongs to the controller with this list.
  [[nodiscard]] bool belongs_to(const std::shared_ptr<DroppedHandles>& list) const {
    return dropped_ == list;
  }
  /// Always an error, which says how to get the elements.
  [[nodiscard]] Result<void> fetch(void* to, std::size_t bytes) const override;

 private:
  Handle handle_;
  std::shared_ptr<DroppedHandles> dropped_;
};

/// Returns an array that refers to a handle.
[[nodiscard]] Array remote_array(Handle handle, DType dtype,
                                 std::shared_ptr<DroppedHandles> dropped);
/// Returns the handle of a remote array; nullopt for an array of this process. Errors: BadInput
/// (the array belongs to another controller).
[[nodiscard]] Result<std::optional<Handle>> handle_of(
    const Array& array, const std::shared_ptr<DroppedHandles>& dropped);

}  // namespace lockstep::worker
