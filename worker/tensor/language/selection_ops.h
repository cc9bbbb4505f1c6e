// Ops whose number of result elements depends on the data. Such an op first counts them and reads
// the count back, so the host waits; while tracing, the count is a size without a value. For users
// of frames.
//
//   const Tensor kept = x[score > 0.5];                  // [u0, 8] of x [s0, 8]
//   const Tensor each = kept * weights;                  // u0 is a size like others, also 0 or 1
//   check(kept.size(0) <= 64, "a batch fits");           // on all ranks jointly, in the run
//   if (kept.size(0) == 0) ...                           // refused: known only in the run
//
// Each rank has its own counts, and all run one graph. A count lies between 0 and the number of
// elements; the same mask gives the same count, whichever op asks. Gradients go to the elements
// that were taken. Every function throws TraceUsageError as those of tensor_ops.h do.
#pragma once

#include <lockstep/worker/tensor/language/tensor_ops.h>

namespace lockstep::worker {

/// Indices of the elements that are not zero (not false), in row-major order: i64 [u, ndim].
[[nodiscard]] Tensor nonzero(const Tensor& x, Line where = Line::current());

/// The elements of x where `mask` is true, in row-major order: [u]. x and mask (bool) broadcast.
/// For rows of x where a mask of fewer dims is true, write x[mask].
[[nodiscard]] Tensor masked_select(const Tensor& x, const Tensor& mask,
                                   Line where = Line::current());

/// The distinct elements of a tensor, ascending; each not-a-number counts as distinct, at the end.
struct Unique {
  Tensor values;   // [u]: the first of equal elements
  Tensor inverse;  // i64, sizes of x: the place of each element in `values`
  Tensor counts;   // i64 [u]: number of times each occurs
};
/// Members that are not used are left out of the graph.
[[nodiscard]] Unique unique(const Tensor& x, Line where = Line::current());
/// As above, for whole slices along `dim`, ordered by their elements from the first on: `values`
/// has u slices, `inverse` is i64 of the size of `dim`. All other sizes must be numbers. Sorts once
/// for each element of a slice, so use it for small slices.
[[nodiscard]] Unique unique(const Tensor& x, std::int64_t dim, Line where = Line::current());

/// Element i of `dim`, repeats[i] times in a row. `repeats` is i64, one per element or one for all;
/// a negative one is an error when the graph runs.
[[nodiscard]] Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, std::int64_t dim,
                                       Line where = Line::current());
/// As above, with repeats given as integers, one per element or one for all: the result's size is
/// known without a read-back.
[[nodiscard]] Tensor repeat_interleave(const Tensor& x, const Sizes& repeats, std::int64_t dim,
                                       Line where = Line::current());
[[nodiscard]] Tensor repeat_interleave(const Tensor& x, const SymInt& repeats, std::int64_t dim,
                                       Line where = Line::current());

}  // namespace lockstep::worker
