// As selection_ops.h, with a bound on the number of elements that is known before the run. The
// result has as many rows as the bound, so nothing is read back to the host and no rank waits in
// the middle of a step; the number of rows present is a tensor.
//
//   const Bounded kept = select_rows(x, score > 0.5, at_most(64));   // values [64, 8] of x [s0, 8]
//   const Tensor total = sum(f(kept.values) * cast(unsqueeze(present(kept), 1), x.dtype()));
//
// A count above the bound is an error of all ranks when the graph runs. Every function throws
// TraceUsageError as those of tensor_ops.h do.
#pragma once

#include <lockstep/worker/tensor/language/tensor_ops.h>

namespace lockstep::worker {

/// A bound on a count.
struct AtMost {
  SymInt bound;
};
[[nodiscard]] inline AtMost at_most(SymInt bound) { return {std::move(bound)}; }

struct Bounded {
  Tensor values;  // [n, ..], n the bound: the rows present, then zeros
  Tensor count;   // 0-d i64, at most n: number of rows present
};
/// True for the rows that are present: bool [n].
[[nodiscard]] Tensor present(const Bounded& x, Line where = Line::current());

/// Indices of the elements that are not zero (not false), in row-major order: i64 [n, ndim].
[[nodiscard]] Bounded nonzero(const Tensor& x, const AtMost& bound, Line where = Line::current());
/// The elements of x where `mask` is true, in row-major order: [n]. x and mask (bool) broadcast.
[[nodiscard]] Bounded masked_select(const Tensor& x, const Tensor& mask, const AtMost& bound,
                                    Line where = Line::current());
/// The rows of x, over its leading dims, where the bool tensor `mask` of these dims is true: [n,
/// ..]. As x[mask].
[[nodiscard]] Bounded select_rows(const Tensor& x, const Tensor& mask, const AtMost& bound,
                                  Line where = Line::current());

}  // namespace lockstep::worker
