// The tensor language: products besides matmul() (tensor_ops.h), made of it or of elementwise
// products and sums. Names and meanings follow torch. If operands do not fit, every function throws
// TraceUsageError with the user's line.
#pragma once

#include <string_view>
#include <vector>

#include <lockstep/worker/tensor/language/tensor_ops.h>

namespace lockstep::worker {

/// The sum of products of two vectors [K]: 0-d.
[[nodiscard]] Tensor dot(const Tensor& a, const Tensor& b, Line where = Line::current());
/// a [M] and b [N] to [M, N], the product of each pair.
[[nodiscard]] Tensor outer(const Tensor& a, const Tensor& b, Line where = Line::current());
/// [M, K] x [K] to [M].
[[nodiscard]] Tensor mv(const Tensor& a, const Tensor& x, Line where = Line::current());
/// [B, M, K] x [B, K, N] to [B, M, N]; nothing broadcasts.
[[nodiscard]] Tensor bmm(const Tensor& a, const Tensor& b, Line where = Line::current());

/// Sums of products by Einstein's convention: "bij,bjk->bik". Letters name each operand's dims,
/// upper and lower case being different; "..." stands for dims without a name, which are aligned at
/// the end and broadcast. A letter twice in one operand takes the diagonal. Letters that the result
/// does not name are summed. Without "->" the result has the unnamed dims, then, in alphabetical
/// order (capitals first), the letters that occur once. Spaces are ignored. Equal letters have
/// equal sizes; the constant 1 broadcasts.
///
/// With more than two operands, the pair whose product is smallest relative to its factors is
/// multiplied first. This order uses the hints of sizes that the ranks agreed on: any order is
/// right, so no guard is needed. Letters of both factors that are summed are summed by matmul().
[[nodiscard]] Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands,
                            Line where = Line::current());

}  // namespace lockstep::worker
