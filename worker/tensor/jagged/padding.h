// From jagged to dense tensors, whose segments are filled up at the end, and back.
#pragma once

#include <lockstep/worker/tensor/jagged/jagged.h>

namespace lockstep::worker {

/// The largest length, 0 without lengths, read back to the host.
[[nodiscard]] SymInt longest(const Tensor& lengths, Line where = Line::current());
/// As above, for x; at most the number of rows of x.
[[nodiscard]] SymInt longest(const Jagged& x, Line where = Line::current());
/// [S, at_most, ..] with `fill` behind each segment. A segment with more rows is a joint error when
/// the graph runs. If at_most is known before the run, nothing is read back.
[[nodiscard]] Tensor to_padded(const Jagged& x, const SymInt& at_most, double fill = 0,
                               Line where = Line::current());
/// As above, as long as the longest segment.
[[nodiscard]] Tensor to_padded(const Jagged& x, Line where = Line::current());
/// The first rows of each segment of dense [S, L, ..], as many as its length, `rows` in all. Checks
/// when the graph runs that no length is above L.
[[nodiscard]] Jagged from_padded(const Tensor& dense, const Tensor& lengths, const SymInt& rows,
                                 Line where = Line::current());
/// As above, with the sum of the lengths read back as `rows`.
[[nodiscard]] Jagged from_padded(const Tensor& dense, const Tensor& lengths,
                                 Line where = Line::current());
/// [S, size] of bools: true where a segment has a row.
[[nodiscard]] Tensor padding_mask(const Tensor& lengths, const SymInt& size,
                                  Line where = Line::current());

}  // namespace lockstep::worker
