// Totals and scans over the segments of a jagged tensor, as over dims of equal length. Over no rows
// a sum is 0, a product 1, a mean not a number, a maximum the lowest value of the dtype and a
// minimum the highest, as in torch.segment_reduce. Values have the sizes [R, ..], results [S, ..]
// or the sizes of the values.
#pragma once

#include <lockstep/worker/tensor/jagged/jagged.h>

namespace lockstep::worker {

/// Added in the order of the rows, so the same bits on every run.
[[nodiscard]] Tensor segment_sum(const Jagged& x, Line where = Line::current());
/// The gradient is right with zeros among the factors.
[[nodiscard]] Tensor segment_prod(const Jagged& x, Line where = Line::current());
/// Takes floats.
[[nodiscard]] Tensor segment_mean(const Jagged& x, Line where = Line::current());
/// Takes floats and i64. Not-a-number propagates; equal elements share the gradient.
[[nodiscard]] Tensor segment_max(const Jagged& x, Line where = Line::current());
[[nodiscard]] Tensor segment_min(const Jagged& x, Line where = Line::current());
/// The root of the sum of squares of floats. The gradient is 0 where the norm is 0.
[[nodiscard]] Tensor segment_norm(const Jagged& x, Line where = Line::current());
/// exp(x) divided by its sum in the segment, for each element of a row, without overflow.
[[nodiscard]] Jagged segment_softmax(const Jagged& x, Line where = Line::current());
/// The sum of each row and those before it in its segment. No sum continues into the next segment,
/// so nothing is lost by cancelling. Uses to_padded(x), which reads back the longest length.
[[nodiscard]] Jagged segment_cumsum(const Jagged& x, Line where = Line::current());

}  // namespace lockstep::worker
