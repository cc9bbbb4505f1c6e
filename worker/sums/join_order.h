// The order in which rows of floats that have the same index are added up (index_add, and what is
// made of it: segments, bags, the gradients of look-ups), on every target: as they lie. Rows with
// dims of their own are added up as columns (sums/sum_order.h). Rows that are numbers go one after
// another: of f32 in f64, of f64 with what each addition loses, added up beside.
#pragma once

#include <lockstep/worker/graph/graph.h>
#include <lockstep/worker/graph/op.h>

namespace lockstep::worker {

/// Whether the order of a join of rows shows in its bits.
[[nodiscard]] inline bool has_join_order(const Node& node) {
  return node.op == Op::IndexAdd && is_float(node.meta.dtype);
}
/// Of a join of rows: they are numbers.
[[nodiscard]] inline bool joins_numbers(const Node& node) { return node.meta.sizes.size() == 1; }

/// Error-free: total + lost is what was added so far, but for what `lost` itself loses (Knuth's
/// sum of two).
inline void add_kept(double& total, double& lost, double x) {
  const double sum = total + x, mine = sum - total;
  lost += (total - (sum - mine)) + (x - mine);
  total = sum;
}
/// Of a total that is not finite what was lost is not a number.
[[nodiscard]] inline double with_kept(double total, double lost) {
  return lost - lost == 0 ? total + lost : total;
}

}  // namespace lockstep::worker
