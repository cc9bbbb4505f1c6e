// The shape rules: what dtype and sizes a node's result has. Used by the tracer to complete a node
// and by the verifier to check one. Sizes are compared as expressions: structurally equal or not.
#pragma once

#include <span>

#include <lockstep/worker/tensor/graph/graph.h>

namespace lockstep::worker {

/// The meta of the result, from the op, its attributes and the operands' metas. If the op takes
/// sizes or dtype from the node's own meta, the result is that meta, once checked. No rule depends
/// on the value of a symbol, so every rule is valid at sizes 0 and 1.
/// Errors: TraceError, with a message for the user: what does not fit and what to do.
[[nodiscard]] Result<TensorMeta> result_meta(const Node& node,
                                             std::span<const TensorMeta> operands);

/// The number of scores of an Attention or AttentionGradient node, which are never in memory
/// together.
[[nodiscard]] shapes::Expr attention_scores(const Graph& graph, const Node& node);

}  // namespace lockstep::worker
