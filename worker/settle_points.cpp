#include <algorithm>

#include <lockstep/worker/settle_points.h>

namespace lockstep::worker {

bool is_collective(Op op) {
  switch (op) {
    case Op::AllToAll:
    case Op::AllReduce:
    case Op::AllGather:
    case Op::ReduceScatter:
    case Op::Broadcast:
      return true;
    default:
      return false;
  }
}

bool is_fallible(const Node& node) {
  switch (node.op) {
    case Op::Assert:
      return node.asserts.at(0).predicate.constant() != std::optional<bool>(true);
    case Op::IndexSelect:
    case Op::IndexAdd:
    case Op::SegmentIds:
    case Op::SegmentMatmul:
    case Op::SegmentOuter:
      return true;
    case Op::AllToAll:
      return !std::ranges::all_of(node.exprs,
                                  [](const shapes::Expr& e) { return e.constant().has_value(); });
    default:
      return false;
  }
}

SettlePoints settle_points(const Graph& graph) {
  SettlePoints points;
  points.before.resize(graph.nodes.size(), false);
  bool open = false;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    open = open || is_fallible(graph.nodes[i]);
    if (!is_collective(graph.nodes[i].op)) continue;
    points.before[i] = open;
    open = false;
  }
  points.at_end = open;
  return points;
}

}  // namespace lockstep::worker
