// Which indices are in range by the way they are made, so that no run has to check them: places
// that a sort or a scan gives, in the tensor that it went over.
#pragma once

#include <optional>

#include <lockstep/worker/graph/graph.h>

namespace lockstep::worker {

/// The list of an op that looks up by indices, and what they have to stay below.
struct CheckedList {
  NodeId index = 0;
  shapes::Expr limit;
};
/// Of an op whose indices have to be checked in the run; nothing where they are in range for
/// certain, or the op has none.
[[nodiscard]] std::optional<CheckedList> checked_list(const Graph& graph, NodeId id);

/// The op may refuse the values that it gets (OpRow::RefusesValues), and so fail on one rank alone.
[[nodiscard]] bool may_refuse(const Graph& graph, NodeId id);

}  // namespace lockstep::worker
