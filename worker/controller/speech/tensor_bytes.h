// A tensor as bytes of a message.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/collectives/base/dtype.h>

namespace lockstep::worker {

/// Value type. `elements` lie in row-major order, and are as many as the sizes say wherever it was
/// decoded from a message.
struct TensorBytes {
  DType dtype = DType::F32;
  std::vector<std::int64_t> sizes;
  std::string elements;
  bool operator==(const TensorBytes&) const = default;
};

/// How many bytes such a tensor has; nullopt: a size is negative, or they are too many to be told.
[[nodiscard]] std::optional<std::uint64_t> bytes_of(DType dtype,
                                                    const std::vector<std::int64_t>& sizes);

}  // namespace lockstep::worker
