// Counts of masks that nothing needs: rows chosen by a mask, x[mask], become all rows with a
// where() at the end. Such a graph needs neither the number of chosen rows nor the host's wait for
// it. Called by the tracer at the end of a trace.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <lockstep/shapes/shape_env.h>
#include <lockstep/worker/tensor/graph/graph.h>

namespace lockstep::worker {

/// A recorded list of nodes, and the outputs that refer to it.
struct Recording {
  std::vector<Node> nodes;
  std::vector<Graph::Output> outputs;
};

/// Considers each count of a mask separately, the last one first. Removes the count if everything
/// made of the chosen rows is made row by row and ends in one of these: totals (sum, prod; amax and
/// amin of floats), rows put or added back where they were chosen, additions by index, or the count
/// as a value (a mean). Look-ups by rows as indices count as made row by row if element 0 exists.
/// Rows that were not chosen are 1 before any op reads them (0 as indices) and are left out of
/// every total, so that their values and gradients have no effect. Floats are added in another
/// order; all else has the same bits. Sizes must be simplified. `allowed`: false if a rank may run
/// another graph; then all counts stay. Returns one line per count for the log: whether the count
/// was removed, and if not, the line that needs it.
[[nodiscard]] std::map<shapes::Symbol, std::string> rewrite_masks(
    Recording& recording, const std::vector<shapes::DeferredAssert>& asserts,
    const std::vector<UniformSize>& uniform, shapes::ShapeEnv& env, bool allowed);

}  // namespace lockstep::worker
