// A node with bodies (graph/control.h) at its turn in a run: which bodies run, on what, and where
// their results go. Shared by the interpreter and the compiled program, which run the bodies.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include <lockstep/collectives/communicator.h>
#include <lockstep/worker/graph/graph.h>
#include <lockstep/worker/run/run_host.h>

namespace lockstep::worker {

struct ControlCall {
  const Graph& graph;
  NodeId id = 0;
  std::span<const std::int64_t> exprs;  // evaluated
  std::vector<Array> operands;
  /// The predicate may differ between ranks that have to go the same way.
  bool compares = false;
  /// Runs a body, with this host around it.
  std::function<Result<std::vector<Array>>(std::size_t body, const Inputs&, RunHost&)> run;
  /// Copies a value into a result of the node, as the block of that number; to a result that nobody
  /// wants it does nothing.
  std::function<Result<void>(std::size_t result, std::int64_t block, const Array&)> place;
};

/// Where no body holds a collective, an error is this rank's alone, and the run tells it as that of
/// the node. Else all ranks have it, and the run is over. RuntimeAssert: a loop goes on after its
/// most trips. ConstraintViolation: ranks would go different ways.
[[nodiscard]] Result<void> run_control(const ControlCall& call,
                                       collectives::Communicator& communicator, RunHost& host);

}  // namespace lockstep::worker
