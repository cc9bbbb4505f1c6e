// The order in which rows of floats that have the same index are added up, on every target: the
// order of the rows. Used by index_add and ops made of it: segments, bags, the gradients of
// look-ups. Rows with dims of their own are added up as columns (sums/sum_order.h). Rows that are
// single numbers are added one after another: f32 in f64, f64 with the rounding errors added up
// separately.
#pragma once

#include <lockstep/worker/tensor/graph/graph.h>
#include <lockstep/worker/tensor/graph/op.h>

namespace lockstep::worker {

/// True if the bits of a node depend on the order in which rows are joined.
[[nodiscard]] inline bool has_join_order(const Node& node) {
  return node.op == Op::IndexAdd && is_float(node.meta.dtype);
}
/// True if the rows that the node joins are single numbers.
[[nodiscard]] inline bool joins_numbers(const Node& node) { return node.meta.sizes.size() == 1; }

/// Adds x without error except for the rounding of `lost` itself: total + lost is the exact sum so
/// far (Knuth's two-sum).
inline void add_compensated(double& total, double& lost, double x) {
  const double sum = total + x, mine = sum - total;
  lost += (total - (sum - mine)) + (x - mine);
  total = sum;
}
/// Returns total + lost. If `total` is not finite, `lost` is invalid and ignored.
[[nodiscard]] inline double compensated_total(double total, double lost) {
  return lost - lost == 0 ? total + lost : total;
}

}  // namespace lockstep::worker
