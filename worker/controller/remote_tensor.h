// A tensor of the workers as the controller sees it: a handle without sizes or elements, which are
// the workers' own.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <lockstep/worker/controller/speech/numbers.h>
#include <lockstep/worker/graph/array.h>

namespace lockstep::worker {

/// Handles that nobody refers to any more, until the workers are told. Any thread: the last copy of
/// a tensor goes where the program lets go of it.
class DroppedHandles {
 public:
  void add(Handle handle) {
    const std::scoped_lock lock(mutex_);
    handles_.push_back(handle);
  }
  /// Whether it was among them; it no longer is.
  [[nodiscard]] bool take(Handle handle);
  [[nodiscard]] std::vector<Handle> take_all() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(handles_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<Handle> handles_;
};

/// The memory of such a tensor. The workers keep theirs until the last copy of it is gone.
class RemoteTensor final : public FarMemory {
 public:
  RemoteTensor(Handle handle, std::shared_ptr<DroppedHandles> dropped)
      : handle_(handle), dropped_(std::move(dropped)) {}
  ~RemoteTensor() override { dropped_->add(handle_); }
  RemoteTensor(const RemoteTensor&) = delete;
  RemoteTensor& operator=(const RemoteTensor&) = delete;

  [[nodiscard]] Handle handle() const { return handle_; }
  /// Of one controller, which has this list.
  [[nodiscard]] bool belongs_to(const std::shared_ptr<DroppedHandles>& list) const {
    return dropped_ == list;
  }
  /// Always an error, which says how to look at it.
  [[nodiscard]] Result<void> fetch(void* to, std::size_t bytes) const override;

 private:
  Handle handle_;
  std::shared_ptr<DroppedHandles> dropped_;
};

/// An array that is a handle.
[[nodiscard]] Array remote_array(Handle handle, DType dtype,
                                 std::shared_ptr<DroppedHandles> dropped);
/// nullopt: the array is the process's own. Errors: BadInput (of another controller).
[[nodiscard]] Result<std::optional<Handle>> handle_of(
    const Array& array, const std::shared_ptr<DroppedHandles>& dropped);

}  // namespace lockstep::worker
