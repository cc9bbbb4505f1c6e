// Where a graph needs a status round, so that a failure on one rank is known to all before the next
// collective. Static: a pure function of the graph, so every rank has the same rounds. The
// interpreter and the compiled program use the same points.
#pragma once

#include <vector>

#include <lockstep/worker/graph.h>

namespace lockstep::worker {

/// The node may fail on one rank alone: an assert that is not constant, an index that may be out of
/// range, counts that may not add up.
[[nodiscard]] bool is_fallible(const Node& node);
[[nodiscard]] bool is_collective(Op op);

struct SettlePoints {
  std::vector<bool> before;  // per node; true only for collectives
  bool at_end = false;
};

/// A round stands before each collective, and at the end of the graph, where something fallible
/// comes after the round before it.
[[nodiscard]] SettlePoints settle_points(const Graph& graph);

}  // namespace lockstep::worker
