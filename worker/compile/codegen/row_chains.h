// Which consecutive kernels of the host run together, some rows at a time, so that what one kernel
// has made of a row is still in the cache when the next one reads it: softmax, norms, gradients.
// Pure.
#pragma once

#include <span>
#include <vector>

#include <lockstep/worker/compile/codegen/plan.h>

namespace lockstep::worker {

/// Steps [first, first + length) of a program, which go over `rows` rows each: what a step makes of a
/// row reads only the same row of what the steps before it make.
struct RowChain {
  std::size_t first = 0, length = 0;
  shapes::Expr rows;
};

/// `kernels`: for each step of a program, the planned step that it is the only kernel of, if threads
/// share that kernel; else null.
[[nodiscard]] std::vector<RowChain> row_chains(const Graph& graph, const Plan& plan,
                                               std::span<const PlannedStep* const> kernels);

}  // namespace lockstep::worker
