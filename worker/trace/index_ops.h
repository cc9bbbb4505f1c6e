// The tensor language: indexing by tensors of indices. Names and meanings follow torch. Indices are
// i64; one out of range is an error when the graph runs, on all ranks jointly. If operands do not
// fit, every function throws TraceUsageError with the user's line. Results are the same bits on
// every run: what meets in one element meets in the order of the indices.
#pragma once

#include <cstdint>

#include <lockstep/worker/trace/tensor.h>

namespace lockstep::worker {

/// Rows of x [R, ..] at index [M].
[[nodiscard]] Tensor index_select(const Tensor& x, const Tensor& index,
                                  Line where = Line::current());
/// Zeros [rows, ..] with `values` [M, ..] added at index [M], in order.
[[nodiscard]] Tensor index_add(const SymInt& rows, const Tensor& index, const Tensor& values,
                               Line where = Line::current());
/// For each element of `index` the element of x at its place, but at the index along `dim`: sizes
/// of index. It has as many dims as x and is no larger in those other than `dim`.
[[nodiscard]] Tensor gather(const Tensor& x, std::int64_t dim, const Tensor& index,
                            Line where = Line::current());
/// Elements of x at row-major places: sizes of index. Negative ones count from the end.
[[nodiscard]] Tensor take(const Tensor& x, const Tensor& index, Line where = Line::current());

}  // namespace lockstep::worker
