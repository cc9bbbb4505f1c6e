// C++ text of the kernels of a plan. Text depends on the graph alone: values are numbered in the
// order in which a kernel uses them, so equal work in two places of a graph has equal text.
#pragma once

#include <string>
#include <vector>

#include <lockstep/worker/plan.h>

namespace lockstep::worker {

/// A kernel without its name.
struct KernelText {
  std::string body;                     // of a function (void* const* b, const long* n)
  std::vector<NodeId> buffers;          // b[i]: memory of this value
  bool scratch = false;                 // one more buffer: i64, as many elements as the root
  std::vector<shapes::Expr> arguments;  // n[i]
};

/// Requires a step of kind Kernel with at least one root.
[[nodiscard]] KernelText emit_kernel(const Graph& graph, const Plan& plan, const PlannedStep& step);

}  // namespace lockstep::worker
