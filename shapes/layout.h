// Where the elements of a tensor lie: its strides and storage offset as expressions of its sizes,
// from what the group has seen. Strides that say nothing, of dims of one element and of tensors
// without any, are taken as those of a contiguous tensor.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <lockstep/shapes/expr/dynamism.h>
#include <lockstep/shapes/shape_env.h>

namespace lockstep::shapes {

/// In row-major order without gaps, whatever the strides of dims of one element are. Requires as
/// many strides as sizes.
[[nodiscard]] bool is_contiguous(std::span<const std::int64_t> sizes,
                                 std::span<const std::int64_t> strides);
/// The same addresses, and nothing that does not matter: row-major strides for a tensor without
/// elements or contiguous but for dims of one element; otherwise each dim of one element has the
/// stride that it would have before the dim after it. Requires as many strides as sizes.
[[nodiscard]] std::vector<std::int64_t> canonical_strides(std::span<const std::int64_t> sizes,
                                                          std::span<const std::int64_t> strides);
/// Those in the encoding of the lattice, equal for all contiguous tensors of as many dims: inferred
/// from the next dim, 1 in the last.
[[nodiscard]] std::vector<Seen> canonical_encoding(std::span<const std::int64_t> sizes,
                                                   std::span<const std::int64_t> strides);

/// In elements; in terms of the sizes, numbers, and symbols where neither will do.
struct Layout {
  std::vector<Expr> strides;
  Expr storage_offset;
};
/// One call's tensor on one rank, agreed upon: the hints of new symbols.
struct LayoutExample {
  std::vector<std::int64_t> strides;  // canonical
  std::int64_t storage_offset = 0;
};
/// The layout that every rank's tensor has which `seen.stride` and `offset` cover, once the sizes'
/// symbols have that rank's values: `seen.stride` is the join of the canonical encodings, `offset`
/// of the storage offsets. A stride is a number that all have, a product of a stride further in and
/// that dim's size, or a new backed symbol of `env` ("x.stride(0)", "x.storage_offset()"), which
/// has that rank's canonical one as value: for strides that differ and of which nothing is known.
/// Requires as many sizes as the example has strides, none of them negative. Throws OverflowError.
[[nodiscard]] Layout infer_layout(ShapeEnv& env, std::string_view source, const Dynamism& seen,
                                  const Seen& offset, std::span<const Expr> sizes,
                                  const LayoutExample& example);

}  // namespace lockstep::shapes
