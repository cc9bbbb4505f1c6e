#include <algorithm>

#include <lockstep/worker/controller/remote_tensor.h>

namespace lockstep::worker {

bool DroppedHandles::take(Handle handle) {
  const std::scoped_lock lock(mutex_);
  const auto found = std::ranges::find(handles_, handle);
  if (found == handles_.end()) return false;
  handles_.erase(found);
  return true;
}

Result<void> RemoteTensor::fetch(void*, std::size_t) const {
  return bad_input(
      "the tensor is on the workers, which alone know its sizes and elements; fetch() of "
      "the controller brings one worker's, sizes() tells those of all");
}

Array remote_array(Handle handle, DType dtype, std::shared_ptr<DroppedHandles> dropped) {
  return Array::unsized(dtype, std::make_shared<const RemoteTensor>(handle, std::move(dropped)));
}

Result<std::optional<Handle>> handle_of(const Array& array,
                                        const std::shared_ptr<DroppedHandles>& dropped) {
  const auto memory = array.far_memory();
  const auto* remote = dynamic_cast<const RemoteTensor*>(memory.get());
  if (remote == nullptr) return std::optional<Handle>{};
  if (remote->belongs_to(dropped)) return std::optional(remote->handle());
  return bad_input("the tensor is one of another controller's workers");
}

}  // namespace lockstep::worker
