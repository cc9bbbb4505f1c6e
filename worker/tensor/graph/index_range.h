// Indices that are in range by construction, so that no run has to check them: places given by a
// sort or a scan, used in the tensor that was sorted or scanned.
#pragma once

#include <optional>

#include <lockstep/worker/tensor/graph/graph.h>

namespace lockstep::worker {

/// The index list of an op, and the limit that its elements have to stay below.
struct CheckedList {
  NodeId index = 0;
  shapes::Expr limit;
};
/// The list of an op whose indices have to be checked in the run; nullopt if they are certainly in
/// range, or the op has none.
[[nodiscard]] std::optional<CheckedList> checked_list(const Graph& graph, NodeId id);

/// True if the op may refuse its values (OpRow::RefusesValues), and so fail on one rank alone.
[[nodiscard]] bool may_refuse(const Graph& graph, NodeId id);

}  // namespace lockstep::worker
