// Runs a node with bodies (graph/control.h): decides which bodies run, on what inputs, and where
// their results go. Shared by the interpreter and the compiled program, which run the bodies.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include <lockstep/collectives/communicator.h>
#include <lockstep/worker/compile/run/run_host.h>
#include <lockstep/worker/tensor/graph/graph.h>

namespace lockstep::worker {

struct ControlCall {
  const Graph& graph;
  NodeId id = 0;
  std::span<const std::int64_t> exprs;  // values of the node's exprs
  std::vector<Array> operands;
  /// True if ranks must compare the predicate: it may differ, and they have to take the same
  /// branch.
  bool compares = false;
  /// Runs a body with the given host.
  std::function<Result<std::vector<Array>>(std::size_t body, const Inputs&, RunHost&)> run;
  /// Copies a value into block number `block` of a result of the node. Does nothing for an unused
  /// result.
  std::function<Result<void>(std::size_t result, std::int64_t block, const Array&)> place;
};

/// Runs the node. If no body holds a collective, an error is this rank's alone, and the caller
/// records it as a failure of the node. Otherwise all ranks return the error, and the run is over.
/// Errors: RuntimeAssert if a loop would exceed its maximum number of trips; ConstraintViolation if
/// ranks would take different branches; errors of bodies.
[[nodiscard]] Result<void> run_control(const ControlCall& call,
                                       collectives::Communicator& communicator, RunHost& host);

}  // namespace lockstep::worker
