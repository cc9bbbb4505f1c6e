// The order in which a tensor's dims lie in memory, as one integer. At place p, counted from the
// outermost, lies dim (code >> 4p & 15) ^ p. So a tensor in row-major order has code 0, whatever
// its number of dims, and 16 dims fill the 64 bits.
//
// Dims are sorted as PyTorch's automatic dynamic shapes sort them before they encode strides: by
// stride, and of equal strides the higher dim lies further in. The stride of a dim of one element
// says nothing, nor do those of a tensor without elements: such a dim is at the place that it has
// in row-major order, and the others share the places that are left.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

namespace lockstep::worker {

/// A tensor of more dims counts as contiguous.
inline constexpr std::size_t kMostOrderedDims = 16;

/// The joined order of ranks that do not agree, and of no rank: no permutation has these codes.
inline constexpr std::int64_t kMixedOrder = 1, kNoOrder = 2;

/// Requires as many strides as sizes.
[[nodiscard]] std::int64_t dim_order(std::span<const std::int64_t> sizes,
                                     std::span<const std::int64_t> strides);

/// By place, the dim that lies there; past the tensor's dims place p has p.
using DimPlaces = std::array<std::uint8_t, kMostOrderedDims>;
/// nullopt: this is no order of `ndim` dims.
[[nodiscard]] std::optional<DimPlaces> places_of(std::int64_t order, std::size_t ndim);

/// The same, or what ranks that do not agree have.
[[nodiscard]] inline bool is_joined_order(std::int64_t order, std::size_t ndim) {
  return order == 0 || order == kMixedOrder || places_of(order, ndim).has_value();
}

/// Commutative, associative and idempotent.
[[nodiscard]] constexpr std::int64_t join_orders(std::int64_t a, std::int64_t b) {
  if (a == b || b == kNoOrder) return a;
  return a == kNoOrder ? b : kMixedOrder;
}

}  // namespace lockstep::worker
