#include <algorithm>

#include <lockstep/worker/tensor/graph/control.h>
#include <lockstep/worker/tensor/graph/node_order.h>
#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/graph/own_op.h>

namespace lockstep::worker {
namespace {

bool constant(const std::vector<shapes::Expr>& exprs) {
  return std::ranges::all_of(exprs, [](const shapes::Expr& e) { return e.constant().has_value(); });
}

bool exchanges_counts(const Node& node) {
  return node.op == Op::AllToAll && node.meta.dtype == DType::I64 && constant(node.exprs);
}

}  // namespace

NodeOrder::NodeOrder(std::vector<Node> nodes, const std::vector<Graph::Output>& outputs)
    : nodes_(std::move(nodes)),
      place_(nodes_.size()),
      needed_(nodes_.size(), false),
      done_(nodes_.size(), false) {
  for (const Graph::Output& output : outputs) needed_[output.node] = true;
  for (auto id = static_cast<NodeId>(nodes_.size()); id-- > 0;) {
    if (must_keep(nodes_[id])) needed_[id] = true;
    if (needed_[id])
      for (const NodeId input : nodes_[id].inputs) needed_[input] = true;
  }
  for (NodeId id = 0; id < nodes_.size(); ++id)
    for (const shapes::Symbol symbol : nodes_[id].binds) binder_[symbol] = id;
}

void NodeOrder::add(const shapes::DeferredAssert& deferred) {
  Due due{deferred, {}, 0};
  for (const shapes::Symbol symbol : deferred.predicate.expr.symbols())
    if (const auto found = binder_.find(symbol); found != binder_.end())
      due.binders.insert(found->second);
  if (!due.binders.empty()) due.after = *due.binders.rbegin();
  const auto same = [&](const Due& other) {
    return other.what.predicate == deferred.predicate && other.what.message == deferred.message;
  };
  if (std::ranges::none_of(due_, same)) due_.push_back(std::move(due));
}

std::vector<Node> NodeOrder::place(Checks checks) {
  for (NodeId id = 0; id < nodes_.size(); ++id)
    if (nodes_[id].op == Op::Input) put(id);
  for (const Due& due : due_)
    if (due.binders.empty()) put(due.what);
  std::erase_if(due_, [](const Due& due) { return due.binders.empty(); });
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    if (done_[id] || !needed_[id]) continue;
    if (checks == Checks::BeforeCounts && exchanges_counts(nodes_[id])) put_reads_before(id);
    put(id);
  }
  return std::move(placed_);
}

/// Places the node, and the asserts that can then be tested.
void NodeOrder::put(NodeId id) {
  for (NodeId& input : nodes_[id].inputs) input = place_[input];
  place_[id] = static_cast<NodeId>(placed_.size());
  done_[id] = true;
  const bool binds = !nodes_[id].binds.empty();
  placed_.push_back(std::move(nodes_[id]));
  if (!binds) return;
  for (Due& due : due_)
    if (due.binders.erase(id) > 0 && due.binders.empty()) put(due.what);
  std::erase_if(due_, [](const Due& due) { return due.binders.empty(); });
}

void NodeOrder::put(const shapes::DeferredAssert& deferred) {
  Node node;
  node.op = Op::Assert;
  node.asserts = {deferred};
  node.meta = {DType::I64, {}};
  node.where = deferred.where;
  placed_.push_back(std::move(node));
}

void NodeOrder::put_reads_before(NodeId exchange) {
  for (NodeId id = exchange + 1; id < nodes_.size(); ++id) {
    if (done_[id] || op_row(nodes_[id].op).kind != OpClass::HostSync) continue;
    std::set<NodeId> early;
    if (!gather_early(id, early)) continue;
    for (const NodeId each : early) put(each);
  }
}

/// Collects `id` and the nodes that it needs, except placed ones; false if one of them cannot move.
bool NodeOrder::gather_early(NodeId id, std::set<NodeId>& found) const {
  if (done_[id] || found.contains(id)) return true;
  const Node& node = nodes_[id];
  const OpClass kind = op_row(node.op).kind;
  if (kind == OpClass::Collective || kind == OpClass::Control ||
      (kind == OpClass::Own && must_keep(node)) || !may_come_early(node, id))
    return false;
  found.insert(id);
  for (const auto* exprs : {&node.exprs, &node.meta.sizes})
    for (const shapes::Expr& expr : *exprs)
      for (const shapes::Symbol symbol : expr.symbols())
        if (const auto binder = binder_.find(symbol);
            binder != binder_.end() && !gather_early(binder->second, found))
          return false;
  return std::ranges::all_of(node.inputs, [&](NodeId input) { return gather_early(input, found); });
}

/// True if the node may move ahead of earlier nodes. No node moves past an assert, because the
/// assert may be what ensures that the node stays within its operand. If all sizes of the node are
/// numbers, no assert concerns it.
bool NodeOrder::may_come_early(const Node& node, NodeId id) const {
  const auto operand_constant = [&](NodeId input) {
    return constant(done_[input] ? placed_[place_[input]].meta.sizes : nodes_[input].meta.sizes);
  };
  if (constant(node.exprs) && constant(node.meta.sizes) &&
      std::ranges::all_of(node.inputs, operand_constant))
    return true;
  return std::ranges::none_of(due_, [&](const Due& due) { return due.after < id; });
}

}  // namespace lockstep::worker
