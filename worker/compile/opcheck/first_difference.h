// Comparison of values by their bits.
#pragma once

#include <cstring>
#include <optional>

#include <lockstep/worker/tensor/graph/array.h>

namespace lockstep::worker {

/// Returns the first element whose bits differ; nullopt if all are equal. Requires equal dtypes and
/// sizes.
[[nodiscard]] inline std::optional<std::int64_t> first_difference(const Array& a, const Array& b) {
  const std::size_t size = dtype_size(a.dtype());
  const auto *left = a.data_as<std::byte>(), *right = b.data_as<std::byte>();
  for (std::size_t i = 0; i < static_cast<std::size_t>(a.elements()); ++i)
    if (std::memcmp(left + i * size, right + i * size, size) != 0)
      return static_cast<std::int64_t>(i);
  return std::nullopt;
}

}  // namespace lockstep::worker
