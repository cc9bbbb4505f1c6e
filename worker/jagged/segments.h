// What is the same for dims of equal length, by the segments of a jagged tensor. Over no rows a sum
// is 0, a product 1, a mean not a number, the largest the lowest value of the dtype and the
// smallest the highest, as torch.segment_reduce has it. Values of the sizes [R, ..], results [S,
// ..] or as the values.
#pragma once

#include <lockstep/worker/jagged/jagged.h>

namespace lockstep::worker {

/// In the order of the rows, so the same bits on every run.
[[nodiscard]] Tensor segment_sum(const Jagged& x, Line where = Line::current());
/// Its gradient is right with zeros among the factors.
[[nodiscard]] Tensor segment_prod(const Jagged& x, Line where = Line::current());
/// Of floats.
[[nodiscard]] Tensor segment_mean(const Jagged& x, Line where = Line::current());
/// Of f32, f64 and i64. Not-a-number stays; equal ones share the gradient.
[[nodiscard]] Tensor segment_max(const Jagged& x, Line where = Line::current());
[[nodiscard]] Tensor segment_min(const Jagged& x, Line where = Line::current());
/// The root of the sum of squares of floats. Where it is 0 its gradient is.
[[nodiscard]] Tensor segment_norm(const Jagged& x, Line where = Line::current());
/// exp(x) over its sum in the segment, element by element of a row, without overflow.
[[nodiscard]] Jagged segment_softmax(const Jagged& x, Line where = Line::current());
/// Each row and those before it in its segment. No sum goes from one segment into the next, so
/// nothing is lost by cancelling; it goes by way of to_padded(x), which reads back the longest.
[[nodiscard]] Jagged segment_cumsum(const Jagged& x, Line where = Line::current());

}  // namespace lockstep::worker
