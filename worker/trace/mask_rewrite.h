// Masks whose count nobody needs: rows that a mask chooses, x[mask], become all rows with a where()
// at the end. Such a graph needs neither the number of chosen rows nor the host's wait for it.
// Called by the tracer at the end of a trace.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <lockstep/shapes/shape_env.h>
#include <lockstep/worker/graph/graph.h>

namespace lockstep::worker {

/// A recorded list of nodes and what refers to it.
struct Recording {
  std::vector<Node> nodes;
  std::vector<Graph::Output> outputs;
};

/// Each count of a mask is taken by itself, the last one first. It goes if all that is made of the
/// chosen rows is made row by row (looked up by them as indices, too, where there is an element 0)
/// and ends in totals (sum, prod; amax and amin of floats), in rows put or added back where they
/// were chosen, or added up by index, or in the count as a value (a mean). Rows that were not
/// chosen are 1 before any op sees them, as indices 0, and are left out of every total, so that no
/// value or gradient of theirs is seen. Additions of floats come in another order; all else has the
/// same bits. Sizes must be simplified. `allowed`: no rank runs another graph; else all counts
/// stay. Gives one line per count, for a reader: which went, which stayed and the line that needs
/// it.
[[nodiscard]] std::map<shapes::Symbol, std::string> rewrite_masks(
    Recording& recording, const std::vector<shapes::DeferredAssert>& asserts,
    const std::vector<UniformSize>& uniform, shapes::ShapeEnv& env, bool allowed);

}  // namespace lockstep::worker
