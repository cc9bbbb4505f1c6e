// A tensor as bytes of a message.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/collectives/base/dtype.h>

namespace lockstep::worker {

/// Value type. `elements` are in row-major order. A decoded message has exactly the elements that
/// its sizes require.
struct TensorBytes {
  DType dtype = DType::F32;
  std::vector<std::int64_t> sizes;
  std::string elements;
  bool operator==(const TensorBytes&) const = default;
};

/// Returns the number of bytes of a tensor; nullopt if a size is negative or the number overflows
/// 63 bits.
[[nodiscard]] std::optional<std::uint64_t> bytes_of(DType dtype,
                                                    const std::vector<std::int64_t>& sizes);

}  // namespace lockstep::worker
