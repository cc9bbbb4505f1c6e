// Strides as words of the exchange: in the encoding of the lattice (shapes/expr/dynamism.h), and so that
// a contiguous tensor, however large, has nothing to say.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <lockstep/shapes/expr/dynamism.h>
#include <lockstep/worker/exchange/observation.h>

namespace lockstep::worker {

/// What a contiguous tensor has in each of `ndim` dims: inferred from the next dim, 1 in the last.
[[nodiscard]] inline shapes::Seen contiguous_stride(std::size_t dim, std::size_t ndim) {
  return dim + 1 == ndim ? shapes::Seen::constant(1)
                         : shapes::Seen::inferred(static_cast<std::int64_t>(dim) + 1);
}

/// The code of a dim that no rank has.
inline constexpr std::int64_t kNoStride = INT64_MIN + 1;

/// 0 is contiguous_stride(dim, ndim). A number that no stride of memory can be becomes dynamic.
[[nodiscard]] std::int64_t stride_code(const shapes::Seen& stride, std::size_t dim,
                                       std::size_t ndim);
/// Undoes stride_code. nullopt: no such word.
[[nodiscard]] std::optional<shapes::Seen> stride_of(std::int64_t code, std::size_t dim,
                                                    std::size_t ndim);
/// The join of the lattice on codes of one dim.
[[nodiscard]] std::int64_t join_strides(std::int64_t a, std::int64_t b);

/// The codes of all values of an observation; empty where every tensor is contiguous. Strides that
/// say nothing (of dims of one element, of tensors without elements) are first made contiguous.
[[nodiscard]] std::vector<std::int64_t> stride_codes(const Observation& observation);

}  // namespace lockstep::worker
