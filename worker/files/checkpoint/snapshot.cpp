#include <cstring>
#include <new>
#include <stdexcept>

#include <fmt/format.h>

#include <lockstep/worker/files/checkpoint/snapshot.h>

namespace lockstep::worker {

Result<void> Snapshot::take(const std::vector<const Array*>& arrays) {
  constexpr std::size_t kAligned = 64;
  parts_.clear();
  try {
    std::size_t total = 0;
    for (const Array* array : arrays)
      total += (array->bytes() + kAligned - 1) / kAligned * kAligned;
    if (total > capacity_) {
      memory_.reset();  // frees the old buffer before it allocates the new one
      capacity_ = 0;
      memory_.reset(new std::byte[total]);
      capacity_ = total;
    }
    std::byte* at = memory_.get();
    for (const Array* array : arrays) {
      const std::size_t bytes = array->bytes();
      if (bytes > 0) std::memcpy(at, array->data(), bytes);
      parts_.emplace_back(at, bytes);
      at += (bytes + kAligned - 1) / kAligned * kAligned;
    }
  } catch (const std::bad_alloc&) {
    return environment_error("there is no memory for the snapshot of a checkpoint.");
  } catch (const std::runtime_error& error) {
    return environment_error(error.what());
  }
  return {};
}

}  // namespace lockstep::worker
