// A copy of the elements of some pieces, which is written while the program runs on. The next copy
// reuses its memory.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include <lockstep/worker/files/checkpoint/rank_file.h>
#include <lockstep/worker/tensor/graph/array.h>

namespace lockstep::worker {

/// Used by one thread at a time.
class Snapshot {
 public:
  /// Copies the elements of `arrays`; arrays on a device are brought to the host. Errors:
  /// Environment (no memory, a device that has failed).
  [[nodiscard]] Result<void> take(const std::vector<const Array*>& arrays);
  /// Bytes of the i-th array. Valid until the next take().
  [[nodiscard]] std::span<const std::byte> bytes(std::size_t i) const { return parts_[i]; }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t capacity_ = 0;
  std::vector<std::span<const std::byte>> parts_;
};

}  // namespace lockstep::worker
