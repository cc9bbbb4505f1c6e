// Where the ranks that run a graph learn of each other's failures, so that all return the same
// error and no collective meets a rank that cannot take part in it. Static: a pure function of the
// graph, so every rank has the same points. The interpreter and the compiled program use the same
// ones. The argument why they suffice is in README.md, "Joint failure inside a graph".
#pragma once

#include <vector>

#include <lockstep/worker/graph/graph.h>

namespace lockstep::worker {

/// How the ranks learn of each other's failures before a collective.
enum class ErrorSync : std::uint8_t {
  None,         // not here: no rank can have failed, or one that has takes part with zeros
  Vote,         // a status round right before it
  Piggybacked,  // it is an exchange of counts, whose messages carry a status word each
};

/// What the ranks do together right before a node that meets peers.
enum class JointAct : std::uint8_t {
  CheckSplits,    // each on its own: an AllToAll's lists fit its rows
  CompareSizes,   // ErrorSyncPoints::same
  CompareSplits,  // of an AllToAll: ErrorSyncPoints::compares
  Vote,           // ErrorSync::Vote
};

struct ErrorSyncPoints {
  std::vector<ErrorSync> before;  // per node; None for all but those that meet peers
  /// Per node: an AllToAll whose lists nothing proves to fit (split_lists.h). The ranks of its
  /// group compare them right before the vote that then stands before it. Or a node whose bodies
  /// hold collectives, and whose predicate nothing proves to be the same on all ranks: they compare
  /// it when they have it.
  std::vector<bool> compares;
  /// Per node: sizes that the ranks of its group need alike and do not know to be
  /// (uniform_facts.h). They compare them there too.
  std::vector<std::vector<shapes::Expr>> same;
  bool at_end = false;  // a status round after the last node

  /// In their order.
  [[nodiscard]] std::vector<JointAct> acts_before(const Graph& graph, NodeId id) const;
  /// A failure before the collective `id` is told to all ranks there or later.
  [[nodiscard]] bool told_from(NodeId id) const;
};

/// A vote stands before a collective whose sizes a rank that failed may not know, or that an assert
/// not yet told of protects; whatever else may have failed is told by the next counts exchange, or
/// at the end.
[[nodiscard]] ErrorSyncPoints error_sync_points(const Graph& graph);

}  // namespace lockstep::worker
