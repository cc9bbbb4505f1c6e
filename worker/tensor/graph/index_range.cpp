#include <lockstep/worker/tensor/graph/index_range.h>
#include <lockstep/worker/tensor/graph/op.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;

/// The 0-d integer that fills the node, if known.
std::optional<Expr> one_value(const Graph& graph, NodeId id) {
  while (graph.nodes[id].op == Op::Expand || graph.nodes[id].op == Op::Reshape)
    id = graph.nodes[id].inputs[0];
  const Node& node = graph.nodes[id];
  if (node.op == Op::Scalar) return node.exprs[0];
  if (node.op == Op::Full && node.meta.dtype == DType::I64)
    return Expr(static_cast<std::int64_t>(node.number));
  return std::nullopt;
}

/// A limit such that all elements are at least 0 and below it; nullopt: no limit is known.
std::optional<Expr> known_limit(const Graph& graph, NodeId id) {
  const Node& node = graph.nodes[id];
  switch (node.op) {
    case Op::Argsort:
    case Op::CumArgmax:
      return node.meta.sizes.back();
    case Op::Iota:
      return node.meta.sizes[static_cast<std::size_t>(node.ints[0])];
    case Op::Slice:
    case Op::Permute:
    case Op::Flip:
    case Op::Reshape:
    case Op::Expand:
    case Op::Gather:
    case Op::IndexSelect:
      return known_limit(graph, node.inputs[0]);
    case Op::Sub: {  // a flipped dim: limit - 1 - place
      const auto limit = known_limit(graph, node.inputs[1]);
      const auto from = one_value(graph, node.inputs[0]);
      if (limit && from && *from == *limit - 1) return limit;
      return std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

std::optional<CheckedList> list_of(const Graph& graph, NodeId id) {
  const Node& node = graph.nodes[id];
  const auto size = [&](std::int64_t dim) {
    return graph.nodes[node.inputs[0]].meta.sizes[static_cast<std::size_t>(dim)];
  };
  if (node.op == Op::IndexSelect || node.op == Op::IndexPut)
    return CheckedList{node.inputs[1], size(0)};
  if (node.op == Op::Gather) return CheckedList{node.inputs[1], size(node.ints[0])};
  if (node.op == Op::IndexAdd || node.op == Op::CheckedIndex)
    return CheckedList{node.inputs[0], node.exprs[0]};
  return std::nullopt;
}

}  // namespace

std::optional<CheckedList> checked_list(const Graph& graph, NodeId id) {
  auto list = list_of(graph, id);
  if (list && known_limit(graph, list->index) == list->limit) list.reset();
  return list;
}

bool may_refuse(const Graph& graph, NodeId id) {
  if (!op_row(graph.nodes[id].op).is(OpRow::RefusesValues)) return false;
  return !list_of(graph, id) || checked_list(graph, id);
}

}  // namespace lockstep::worker
