// Rows in segments of different lengths, one behind the other in one tensor, without padding. As
// inputs they are structs of two tensors: lengths are values of the run, so only the number of rows
// is a size. Wherever lengths meet rows, lengths that are negative or do not add up to the rows are
// a joint error when the graph runs. If operands do not fit, every function throws TraceUsageError
// with the user's line. What functions make of lengths is i64. Every rule is valid without rows,
// without segments and for empty segments.
#pragma once

#include <vector>

#include <lockstep/worker/language/tensor_ops.h>

namespace lockstep::worker {

struct Jagged {
  Tensor values;   // [R, ..]: the rows of segment 0, then those of segment 1, ..
  Tensor lengths;  // i64 or i32 [S]
  template <class V>
  void fields(V& v) {
    v("values", values), v("lengths", lengths);
  }
};

/// Many features of a batch of samples. A feature that is absent has lengths 0.
struct KeyedJagged {
  Tensor values;   // [R, ..]: by feature, then by sample
  Tensor lengths;  // i64 or i32 [F, B]
  template <class V>
  void fields(V& v) {
    v("values", values), v("lengths", lengths);
  }
};

/// Where each segment starts, and the number of rows behind that: i64 [S + 1] of lengths [S].
[[nodiscard]] Tensor offsets_of(const Tensor& lengths, Line where = Line::current());
/// The other way round. That there is a first offset, which is 0, and that no offset is less than
/// the one before is checked when the graph runs.
[[nodiscard]] Tensor lengths_of(const Tensor& offsets, Line where = Line::current());
/// x with other rows, as many.
[[nodiscard]] Jagged with_values(const Jagged& x, const Tensor& values);

/// The number of the segment that each row is in: i64 [R]. Checks the lengths.
[[nodiscard]] Tensor segment_of_rows(const Jagged& x, Line where = Line::current());
/// The number of each row in its segment: i64 [R].
[[nodiscard]] Tensor place_of_rows(const Jagged& x, Line where = Line::current());
/// The rows of table [S, ..], each as often as its segment is long: [R, ..].
[[nodiscard]] Tensor repeat_by_segment(const Tensor& table, const Jagged& x,
                                       Line where = Line::current());

/// Every feature of every sample as a segment: lengths [F * B].
[[nodiscard]] Jagged all_features(const KeyedJagged& x, Line where = Line::current());
/// The number of the feature that each row is of: i64 [R].
[[nodiscard]] Tensor feature_of_rows(const KeyedJagged& x, Line where = Line::current());
/// One by one. How many rows each has is read back to the host. Requires a number F.
[[nodiscard]] std::vector<Jagged> split_features(const KeyedJagged& x,
                                                 Line where = Line::current());
/// The other way round. Requires at least one; all have as many segments.
[[nodiscard]] KeyedJagged join_features(const std::vector<Jagged>& features,
                                        Line where = Line::current());

}  // namespace lockstep::worker
