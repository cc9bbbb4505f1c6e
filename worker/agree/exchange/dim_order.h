// The order in which a tensor's dims lie in memory, as one integer. At place p, counted from the
// outermost, lies dim (code >> 4p & 15) ^ p. So a tensor in row-major order has code 0, whatever
// its number of dims, and 16 dims fill the 64 bits.
//
// Dims are sorted as PyTorch's automatic dynamic shapes sort them before they encode strides: by
// stride; among equal strides the higher dim lies further in. The stride of a dim of one element
// means nothing: the dim keeps its place in row-major order, and the others share the remaining
// places. A tensor without elements counts as row-major.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

namespace lockstep::worker {

/// Maximum number of dims; a tensor with more dims counts as contiguous.
inline constexpr std::size_t kMostOrderedDims = 16;

/// kMixedOrder: the orders of ranks differ. kNoOrder: no rank has the tensor. No permutation has
/// these codes.
inline constexpr std::int64_t kMixedOrder = 1, kNoOrder = 2;

/// The code of a tensor's order. Requires as many strides as sizes.
[[nodiscard]] std::int64_t dim_order(std::span<const std::int64_t> sizes,
                                     std::span<const std::int64_t> strides);

/// The dim at each place; past the tensor's dims, place p holds p.
using DimPlaces = std::array<std::uint8_t, kMostOrderedDims>;
/// nullopt: `order` is no order of `ndim` dims.
[[nodiscard]] std::optional<DimPlaces> places_of(std::int64_t order, std::size_t ndim);

/// True for an order of `ndim` dims, and for kMixedOrder.
[[nodiscard]] inline bool is_joined_order(std::int64_t order, std::size_t ndim) {
  return order == 0 || order == kMixedOrder || places_of(order, ndim).has_value();
}

/// Commutative, associative and idempotent.
[[nodiscard]] constexpr std::int64_t join_orders(std::int64_t a, std::int64_t b) {
  if (a == b || b == kNoOrder) return a;
  return a == kNoOrder ? b : kMixedOrder;
}

}  // namespace lockstep::worker
