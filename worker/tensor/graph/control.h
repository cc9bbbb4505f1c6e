// Control flow in a graph: nodes with bodies. A body is a graph of its own. Its inputs are named
// after the operands that they stand for (operand_name()). It uses the symbols of the outer graph:
// those in use are its `symbols`, and the node's exprs give their values. The results of such a
// node are separate nodes (Op::Result).
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include <lockstep/worker/tensor/graph/graph.h>

namespace lockstep::worker {

/// Number of bodies of a node of this kind.
[[nodiscard]] std::size_t bodies_of(Op op);
/// Name of the body input for operand `operand`; in Cond operands are counted without the
/// predicate.
[[nodiscard]] std::string operand_name(std::size_t operand);
/// The operands of the bodies.
[[nodiscard]] std::span<const NodeId> body_operands(const Node& node);

/// True if the node is a collective, or a body holds a collective or host call: ranks have to reach
/// it together.
[[nodiscard]] bool runs_collectives(const Node& node);

/// The results of a node with bodies, in the order of Result::ints[0]. A scan has the last carries,
/// then the values of each trip, stacked, and then the carries before each trip, stacked, which
/// gradients need. Only results that have a node are kept.
[[nodiscard]] std::vector<TensorMeta> result_metas(const Node& node);

/// The shape rule: inputs of bodies are operands, branches give the same dtypes and sizes, carries
/// keep theirs. The node has no value itself (i64 without sizes). Errors: TraceError.
[[nodiscard]] Result<TensorMeta> control_meta(const Node& node, std::span<const TensorMeta> in);

/// Replaces each expression e by `by(e)`, within bodies too, and updates the bodies' lists of
/// symbols. The last symbol of a scan's body is the number of the trip's row.
void rewrite_exprs(Node& node, const std::function<shapes::Expr(const shapes::Expr&)>& by);

}  // namespace lockstep::worker
