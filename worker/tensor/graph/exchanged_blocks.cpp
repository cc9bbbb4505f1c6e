#include <algorithm>

#include <lockstep/worker/tensor/graph/exchanged_blocks.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;

bool equal_constant_splits(const Node& node) {
  return node.op == Op::AllToAll && node.exprs[0].constant() &&
         std::ranges::all_of(node.exprs, [&](const Expr& e) { return e == node.exprs[0]; });
}

/// True if the op treats each of `ranks` equal blocks of the operand's elements, in row-major
/// order, alike and separately.
bool works_by_blocks(const Node& node, const Node& operand, std::int64_t ranks) {
  if (node.op == Op::Reshape || node.op == Op::Cast) return true;
  const auto rows =
      operand.meta.sizes.empty() ? std::nullopt : operand.meta.sizes.front().constant();
  return node.op == Op::Sum && rows && *rows % ranks == 0 &&
         std::ranges::count(node.ints, std::int64_t{0}) == 0;
}

bool same_op(const Node& a, const Node& b) {
  return a.op == b.op && a.ints == b.ints && a.exprs == b.exprs && a.meta == b.meta;
}

}  // namespace

ExchangedBlocks::ExchangedBlocks(const Graph& graph) : graph_(graph) {
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph.nodes[id];
    for (std::size_t k = 0; k < node.binds.size(); ++k) bound_[node.binds[k]] = {id, k};
    if (const auto found = twin(id)) twins_[id] = *found;
  }
}

std::optional<NodeId> ExchangedBlocks::sent(NodeId id) const {
  const auto found = twins_.find(id);
  return found == twins_.end() ? std::nullopt : std::optional(found->second);
}

const Node& ExchangedBlocks::exchange(NodeId id) const {
  while (graph_.nodes[id].op != Op::AllToAll) id = graph_.nodes[id].inputs[0];
  return graph_.nodes[id];
}

std::optional<std::pair<NodeId, std::size_t>> ExchangedBlocks::binder(shapes::Symbol symbol) const {
  const auto found = bound_.find(symbol);
  return found == bound_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<ExchangedBlocks::Number> ExchangedBlocks::number(shapes::Symbol symbol) const {
  const auto bound = binder(symbol);
  if (!bound) return std::nullopt;
  const Node& brought = graph_.nodes[graph_.nodes[bound->first].inputs.at(0)];
  const std::size_t ranks = brought.exprs.size() / 2;
  if (!equal_constant_splits(brought) ||
      brought.meta.sizes != std::vector<Expr>{Expr(std::int64_t(ranks))})
    return std::nullopt;
  const Node* sent = &graph_.nodes[brought.inputs[0]];
  while (sent->op == Op::Expand || sent->op == Op::Reshape) sent = &graph_.nodes[sent->inputs[0]];
  if (sent->op != Op::Scalar) return std::nullopt;
  return Number{sent->exprs[0], bound->second, &brought};
}

std::optional<NodeId> ExchangedBlocks::twin(NodeId id) const {
  const Node& at = graph_.nodes[id];
  if (equal_constant_splits(at)) return at.inputs[0];
  if (at.inputs.size() != 1) return std::nullopt;
  const auto operand = sent(at.inputs[0]);
  if (!operand) return std::nullopt;
  const auto ranks = static_cast<std::int64_t>(exchange(at.inputs[0]).exprs.size() / 2);
  if (at.op != Op::ToList && !works_by_blocks(at, graph_.nodes[at.inputs[0]], ranks))
    return std::nullopt;
  for (NodeId other = 0; other < graph_.nodes.size(); ++other)
    if (graph_.nodes[other].inputs.size() == 1 && graph_.nodes[other].inputs[0] == *operand &&
        same_op(graph_.nodes[other], at))
      return other;
  return std::nullopt;
}

}  // namespace lockstep::worker
