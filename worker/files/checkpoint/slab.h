// Splits a tensor into slabs: contiguous parts of limited length. Used to read and write tensors of
// any size through a small buffer.
#pragma once

#include <algorithm>
#include <cstdint>

#include <lockstep/worker/files/checkpoint/piece.h>

namespace lockstep::worker {

inline constexpr std::uint64_t kSlabBytes = std::uint64_t{4} << 20;

/// Calls `each(Box slab, std::uint64_t offset)` for the slabs of `box`, in row-major order. A slab
/// has at most `most` bytes, but at least one element; `offset` counts bytes within the box. Stops
/// at the first error.
template <class Each>
[[nodiscard]] Result<void> each_slab(const Box& box, std::size_t element, std::uint64_t most,
                                     const Each& each) {
  if (is_empty(box)) return {};
  const std::size_t dims = box.sizes.size();
  // A slab has all indices of the dims from `cut` on, and as many of dim `cut - 1` as fit.
  std::size_t cut = dims;
  std::uint64_t inner = element;
  while (cut > 0 && inner * static_cast<std::uint64_t>(box.sizes[cut - 1]) <= most)
    inner *= static_cast<std::uint64_t>(box.sizes[--cut]);
  std::uint64_t offset = 0;
  if (cut == 0) return each(box, offset);
  const std::size_t d = cut - 1;
  const auto count = static_cast<std::int64_t>(std::max<std::uint64_t>(1, most / inner));
  Box slab = box;
  for (std::size_t k = 0; k < d; ++k) slab.sizes[k] = 1;
  while (true) {
    for (std::int64_t at = 0; at < box.sizes[d]; at += count) {
      slab.start[d] = box.start[d] + at;
      slab.sizes[d] = std::min(count, box.sizes[d] - at);
      if (auto done = each(slab, offset); !done) return done;
      offset += static_cast<std::uint64_t>(slab.sizes[d]) * inner;
    }
    std::size_t k = d;
    while (k > 0 && ++slab.start[k - 1] == box.start[k - 1] + box.sizes[k - 1]) {
      --k;
      slab.start[k] = box.start[k];
    }
    if (k == 0) return {};
  }
}

}  // namespace lockstep::worker
