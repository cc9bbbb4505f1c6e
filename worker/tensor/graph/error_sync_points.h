// Where the ranks that run a graph learn of each other's failures, so that all return the same
// error and no collective meets a rank that cannot take part in it. Static: a pure function of the
// graph, so every rank has the same points. The interpreter and the compiled program use the same
// ones. The argument why they suffice is in README.md, "Joint failure inside a graph".
#pragma once

#include <vector>

#include <lockstep/worker/tensor/graph/graph.h>

namespace lockstep::worker {

/// How the ranks learn of each other's failures before a collective.
enum class ErrorSync : std::uint8_t {
  None,         // no sync: no rank can have failed, or a failed rank takes part with zeros
  Vote,         // a status round right before it
  Piggybacked,  // the collective is an exchange of counts; each message carries a status word
};

/// What the ranks do together right before a node that meets peers.
enum class JointAct : std::uint8_t {
  CheckSplits,    // each rank checks that its lists of an AllToAll fit its rows
  CompareSizes,   // ErrorSyncPoints::same
  CompareSplits,  // of an AllToAll: ErrorSyncPoints::compares
  Vote,           // ErrorSync::Vote
};

struct ErrorSyncPoints {
  std::vector<ErrorSync> before;  // per node; None for all but those that meet peers
  /// Per node. True for an AllToAll whose lists nothing proves to fit (split_lists.h): the ranks of
  /// its group compare the lists, and a vote follows. True for a node whose bodies hold
  /// collectives, and whose predicate nothing proves to be the same on all ranks: these compare the
  /// predicate's value.
  std::vector<bool> compares;
  /// Per node: sizes that the ranks of its group need equal, where nothing proves that they are
  /// (uniform_facts.h). The ranks compare them right before the node, and a vote follows.
  std::vector<std::vector<shapes::Expr>> same;
  bool at_end = false;  // a status round after the last node

  /// What the ranks do before node `id`, in order.
  [[nodiscard]] std::vector<JointAct> acts_before(const Graph& graph, NodeId id) const;
  /// True if a failure before the collective `id` is reported to all ranks at `id` or later.
  [[nodiscard]] bool told_from(NodeId id) const;
};

/// A vote precedes a collective if a failed rank may not know the collective's sizes, or if an
/// assert on these sizes is not reported yet. If graphs may differ, a vote precedes every
/// collective. All other failures are reported by the next exchange of counts, or at the end.
[[nodiscard]] ErrorSyncPoints error_sync_points(const Graph& graph);

}  // namespace lockstep::worker
