// What the ops that make an integer value say of its elements: truths as numbers are 0 or 1, and a
// sum of such is a count. Used by the tracer for the ranges of values read back, and by
// SettledFacts for what no rank can fail on.
#pragma once

#include <optional>
#include <span>

#include <lockstep/worker/graph/graph.h>

namespace lockstep::worker {

/// Every element of `id` lies in [0, result], whatever the data. Nullopt where the ops do not say.
/// Operands come earlier in `nodes`, as in a graph.
[[nodiscard]] std::optional<shapes::Expr> count_limit(std::span<const Node> nodes, NodeId id);

}  // namespace lockstep::worker
