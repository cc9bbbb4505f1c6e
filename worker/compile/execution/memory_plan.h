// Places the values of some steps in one block of memory, by first fit: for a CUDA graph, in which
// addresses are fixed. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace lockstep::worker {

/// A value that is in memory from step `first` to step `last`.
struct MemoryRequest {
  std::size_t bytes = 0;
  std::size_t first = 0, last = 0;
};

struct MemoryPlan {
  static constexpr std::size_t kAlignment = 256;
  std::vector<std::size_t> offsets;  // per request, multiples of kAlignment
  std::size_t bytes = 0;             // size of the block
};

/// Values that exist at the same time do not overlap. Requests are placed in the order of `first`
/// (equal ones in the order of the list), each at the lowest free offset.
[[nodiscard]] MemoryPlan plan_memory(std::span<const MemoryRequest> requests);

}  // namespace lockstep::worker
