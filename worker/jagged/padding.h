// From jagged to dense tensors, in which the rows behind each segment are filled up, and back.
#pragma once

#include <lockstep/worker/jagged/jagged.h>

namespace lockstep::worker {

/// The largest of the lengths, 0 of none, read back to the host.
[[nodiscard]] SymInt longest(const Tensor& lengths, Line where = Line::current());
/// The same of the lengths of x, at most as many as x has rows.
[[nodiscard]] SymInt longest(const Jagged& x, Line where = Line::current());
/// [S, at_most, ..] with `fill` behind each segment. A segment with more rows than that is a joint
/// error when the graph runs. With a size that is known before, nothing is read back.
[[nodiscard]] Tensor to_padded(const Jagged& x, const SymInt& at_most, double fill = 0,
                               Line where = Line::current());
/// The same, as long as the longest.
[[nodiscard]] Tensor to_padded(const Jagged& x, Line where = Line::current());
/// The first rows of each of dense [S, L, ..], as many as its length, of which all together are
/// `rows`; that none is longer than L is checked when the graph runs.
[[nodiscard]] Jagged from_padded(const Tensor& dense, const Tensor& lengths, const SymInt& rows,
                                 Line where = Line::current());
/// The same, with the sum of the lengths read back.
[[nodiscard]] Jagged from_padded(const Tensor& dense, const Tensor& lengths,
                                 Line where = Line::current());
/// [S, size] of bools: true where a segment has a row.
[[nodiscard]] Tensor padding_mask(const Tensor& lengths, const SymInt& size,
                                  Line where = Line::current());

}  // namespace lockstep::worker
