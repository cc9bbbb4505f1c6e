#include <algorithm>

#include <lockstep/worker/compile/sums/sum_order.h>
#include <lockstep/worker/tensor/graph/op.h>

namespace lockstep::worker {

bool has_sum_order(const Node& node) {
  return (node.op == Op::Sum || node.op == Op::Prod) && is_float(node.meta.dtype);
}

SumRun sum_run(std::size_t dims, std::span<const std::int64_t> reduced) {
  const auto is_reduced = [&](std::size_t d) {
    return std::ranges::count(reduced, static_cast<std::int64_t>(d)) > 0;
  };
  SumRun run{dims, dims, true};
  while (run.last > 0 && !is_reduced(run.last - 1)) --run.last;
  run.rows = run.last == dims;
  run.first = run.last;
  while (run.first > 0 && is_reduced(run.first - 1)) --run.first;
  return run;
}

}  // namespace lockstep::worker
