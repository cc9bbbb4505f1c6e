// Limits of integer values, from the ops that make them: bools as numbers are 0 or 1, and a sum of
// these is a count. Used by the tracer for the ranges of values read back, and by CertainFacts for
// asserts that no rank can fail.
#pragma once

#include <optional>
#include <span>

#include <lockstep/worker/tensor/graph/graph.h>

namespace lockstep::worker {

/// A limit such that every element of `id` lies in [0, limit], whatever the data; nullopt if the
/// ops give none. Operands come earlier in `nodes`, as in a graph.
[[nodiscard]] std::optional<shapes::Expr> count_limit(std::span<const Node> nodes, NodeId id);

}  // namespace lockstep::worker
