// Control flow in a graph: nodes with bodies. A body is a graph of its own. Its inputs are called
// after the operands that they show (operand_name()), and it speaks of the same symbols as the
// graph around it: those it uses are its `symbols`, which get their values from the node's exprs.
// The results of such a node are nodes of their own (Op::Result).
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include <lockstep/worker/graph/graph.h>

namespace lockstep::worker {

/// How many bodies a node of that kind has.
[[nodiscard]] std::size_t bodies_of(Op op);
/// What shows operand `operand`, in a body of Cond counted without the predicate.
[[nodiscard]] std::string operand_name(std::size_t operand);
/// The operands that go to bodies.
[[nodiscard]] std::span<const NodeId> body_operands(const Node& node);

/// The node is a collective, or a body of it holds one: ranks have to come there together.
[[nodiscard]] bool meets_peers(const Node& node);

/// The results of a node with bodies, in the order of Result::ints[0]. Of a scan: the last carries,
/// then what each trip gives, stacked, and then the carries before each trip, stacked: gradients
/// need them, and only results that there is a node of are kept.
[[nodiscard]] std::vector<TensorMeta> result_metas(const Node& node);

/// The shape rule: bodies take what they are given, branches give alike, carries keep dtype and
/// sizes. The meta is none (i64 without sizes). Errors: TraceError.
[[nodiscard]] Result<TensorMeta> control_meta(const Node& node, std::span<const TensorMeta> in);

/// Puts `by(e)` in the place of each expression, within bodies too, and gives bodies the symbols
/// that they then speak of. The last symbol of a scan's body is the number of the trip's row.
void rewrite_exprs(Node& node, const std::function<shapes::Expr(const shapes::Expr&)>& by);

}  // namespace lockstep::worker
