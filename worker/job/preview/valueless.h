// The outputs of a call that is traced in place of being run: dtypes and sizes, no values.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <lockstep/worker/compile/run/run_host.h>
#include <lockstep/worker/tensor/graph/array.h>
#include <lockstep/worker/tensor/graph/graph.h>

namespace lockstep::worker {

/// Receives one sentence about an output whose value is needed but missing; continues "stopped: ".
using NeededValue = std::function<void(const std::string& what)>;

/// The outputs of `graph` for these inputs, in the graph's order. An output that is also an input
/// is returned as it is, and a number computed from sizes has its value. Reading any other output,
/// or a size that is known only in the run, calls `needed`, then fails with the same sentence.
/// Errors: BadInput (inputs that do not fit the graph).
[[nodiscard]] Result<std::vector<Array>> valueless_outputs(const Graph& graph, const Inputs& inputs,
                                                           const NeededValue& needed);

}  // namespace lockstep::worker
