// Rows in segments of different lengths, one segment after the other in one tensor, without
// padding. As inputs they are structs of two tensors: lengths are values of the run, so only the
// number of rows is a size. In functions that use lengths and rows, lengths that are negative or do
// not add up to the rows are a joint error when the graph runs. If operands do not fit, every
// function throws TraceUsageError with the user's line. Lengths that functions return are i64.
// Every rule is valid without rows, without segments and for empty segments.
#pragma once

#include <vector>

#include <lockstep/worker/tensor/language/tensor_ops.h>

namespace lockstep::worker {

struct Jagged {
  Tensor values;   // [R, ..]: the rows of segment 0, then those of segment 1, ..
  Tensor lengths;  // i64 or i32 [S]
  template <class V>
  void fields(V& v) {
    v("values", values), v("lengths", lengths);
  }
};

/// Many features of a batch of samples. An absent feature has lengths 0.
struct KeyedJagged {
  Tensor values;   // [R, ..]: by feature, then by sample
  Tensor lengths;  // i64 or i32 [F, B]
  template <class V>
  void fields(V& v) {
    v("values", values), v("lengths", lengths);
  }
};

/// Start of each segment, and at the end the number of rows: i64 [S + 1] from lengths [S].
[[nodiscard]] Tensor offsets_of(const Tensor& lengths, Line where = Line::current());
/// The inverse of offsets_of. Checks when the graph runs that there is a first offset, which is 0,
/// and that no offset is less than the one before.
[[nodiscard]] Tensor lengths_of(const Tensor& offsets, Line where = Line::current());
/// x with other rows; requires as many.
[[nodiscard]] Jagged with_values(const Jagged& x, const Tensor& values);

/// Number of the segment of each row: i64 [R]. Checks the lengths.
[[nodiscard]] Tensor segment_of_rows(const Jagged& x, Line where = Line::current());
/// Number of each row within its segment: i64 [R].
[[nodiscard]] Tensor place_of_rows(const Jagged& x, Line where = Line::current());
/// Rows of table [S, ..], each repeated for the rows of its segment: [R, ..].
[[nodiscard]] Tensor repeat_by_segment(const Tensor& table, const Jagged& x,
                                       Line where = Line::current());

/// Every feature of every sample as a segment: lengths [F * B].
[[nodiscard]] Jagged all_features(const KeyedJagged& x, Line where = Line::current());
/// Number of the feature of each row: i64 [R].
[[nodiscard]] Tensor feature_of_rows(const KeyedJagged& x, Line where = Line::current());
/// The features one by one. Reads their numbers of rows back to the host. Requires that F is a
/// number.
[[nodiscard]] std::vector<Jagged> split_features(const KeyedJagged& x,
                                                 Line where = Line::current());
/// The inverse of split_features. Requires at least one feature; all have as many segments.
[[nodiscard]] KeyedJagged join_features(const std::vector<Jagged>& features,
                                        Line where = Line::current());

}  // namespace lockstep::worker
