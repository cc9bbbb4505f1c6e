// All fingerprints of one graph, computed in one pass: what a trace reports. Pure.
#pragma once

#include <vector>

#include <lockstep/shapes/expr/fingerprint.h>
#include <lockstep/worker/graph/graph.h>

namespace lockstep::worker {

struct GraphPrints {
  shapes::Fingerprint graph;                  // Graph::fingerprint()
  shapes::Fingerprint skeleton;               // Graph::skeleton_fingerprint()
  std::vector<shapes::Fingerprint> prefixes;  // Graph::prefix_fingerprints()
};

[[nodiscard]] GraphPrints prints_of(const Graph& graph);

}  // namespace lockstep::worker
