#include <algorithm>

#include <fmt/format.h>

#include <lockstep/worker/tensor/graph/control.h>
#include <lockstep/worker/tensor/graph/node_order.h>
#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/graph/uniform_facts.h>
#include <lockstep/worker/tensor/trace/traced_body.h>

namespace lockstep::worker {

NodeId Trace::append(Node node, std::uint32_t scope) {
  nodes_.push_back(std::move(node));
  scope_of_.push_back(scope);
  return static_cast<NodeId>(nodes_.size() - 1);
}

NodeId Trace::input_for(NodeId id, const Line& where) {
  const auto owner = std::ranges::find(scopes_, scope_of_[id], &Scope::number);
  if (scope_of_[id] != 0 && owner == scopes_.end())
    throw TraceUsageError(
        fmt::format("{}: a value of a branch or a loop's body is used outside of it; give it back "
                    "as a result",
                    here(where).text()));
  for (auto within = scope_of_[id] == 0 ? scopes_.begin() : owner + 1; within != scopes_.end();
       ++within) {
    const auto [at, fresh] = within->shown.emplace(id, 0);
    if (fresh) {
      Node input;
      input.op = Op::Input;
      input.text = operand_name(within->inputs.size());
      input.meta = meta(id);
      at->second = append(std::move(input), within->number);
      within->inputs.push_back(at->second);
      within->captured.push_back(id);
      captured_as_[at->second] = id;
    }
    id = at->second;
  }
  return id;
}

NodeId Trace::origin(NodeId id) const {
  for (auto outer = captured_as_.find(id); outer != captured_as_.end();
       outer = captured_as_.find(id))
    id = outer->second;
  return id;
}

void Trace::begin_body() { scopes_.push_back({++scope_count_}); }

Tensor Trace::body_input(const TensorMeta& meta) {
  Scope& scope = scopes_.back();
  Node input;
  input.op = Op::Input;
  input.text = operand_name(scope.inputs.size());
  input.meta = meta;
  scope.inputs.push_back(append(std::move(input), scope.number));
  return {shared_from_this(), scope.inputs.back()};
}

TracedBody Trace::end_body(const std::vector<Tensor>& results, const Line& where) {
  TracedBody body;
  for (const Tensor& result : results) body.results_.push_back(operand(result, where));
  const Scope& scope = scopes_.back();
  body.captured_ = scope.captured;
  const auto own = scope.inputs.size() - scope.captured.size();
  body.own_inputs_.assign(scope.inputs.begin(),
                          scope.inputs.begin() + static_cast<std::ptrdiff_t>(own));
  body.captured_inputs_.assign(scope.inputs.begin() + static_cast<std::ptrdiff_t>(own),
                               scope.inputs.end());
  std::set<const OwnGradient*> seen;
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    if (scope_of_[id] != scope.number) continue;
    body.nodes_.push_back(id);
    body.recorded_.push_back(nodes_[id]);
    if (stopped_.contains(id)) body.stopped_.insert(id);
    if (const OwnGradient* gradient = own_gradient(id); gradient && seen.insert(gradient).second)
      body.own_gradients_.push_back(*gradient);
  }
  body.frame_.nesting = known_nesting();
  body.frame_.peers_may_differ = setup_.peers_may_differ;
  scopes_.pop_back();
  return body;
}

const Node* TracedBody::only_user(NodeId captured) const {
  NodeId id = captured_inputs_.at(
      static_cast<std::size_t>(std::ranges::find(captured_, captured) - captured_.begin()));
  while (true) {
    const auto among = [&](const std::vector<NodeId>& ids) { return std::ranges::count(ids, id); };
    if (among(results_) != 0 || std::ranges::any_of(own_gradients_, [&](const OwnGradient& own) {
          return among(own.inputs) != 0 || among(own.outputs) != 0;
        }))
      return nullptr;
    const Node* user = nullptr;
    std::size_t at = 0;
    for (std::size_t i = 0; i < recorded_.size(); ++i)
      for (std::int64_t uses = among(recorded_[i].inputs); uses > 0; --uses) {
        if (user != nullptr) return nullptr;
        user = &recorded_[i];
        at = i;
      }
    if (user == nullptr || user->op != Op::Permute) return user;
    id = nodes_[at];
  }
}

std::shared_ptr<const Graph> TracedBody::graph(const std::vector<NodeId>& operands,
                                               std::optional<shapes::Symbol> row) const {
  Graph graph = frame_;
  graph.is_body = true;
  std::map<NodeId, std::string> names;
  for (std::size_t k = 0; k < own_inputs_.size(); ++k) names[own_inputs_[k]] = operand_name(k);
  for (std::size_t k = 0; k < captured_.size(); ++k) {
    const auto at = std::find(operands.begin() + static_cast<std::ptrdiff_t>(own_inputs_.size()),
                              operands.end(), captured_[k]);
    names[captured_inputs_[k]] = operand_name(static_cast<std::size_t>(at - operands.begin()));
  }
  std::map<NodeId, NodeId> place;
  std::vector<Node> nodes;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    Node node = recorded_[i];
    for (NodeId& input : node.inputs) input = place.at(input);
    if (node.op == Op::Input) node.text = names.at(nodes_[i]);
    place[nodes_[i]] = static_cast<NodeId>(nodes.size());
    nodes.push_back(std::move(node));
  }
  for (std::size_t k = 0; k < results_.size(); ++k)
    graph.outputs.push_back({fmt::format("{}", k), place.at(results_[k])});
  NodeOrder order(std::move(nodes), graph.outputs);
  graph.nodes = order.place(graph.peers_may_differ ? NodeOrder::Checks::AsRecorded
                                                   : NodeOrder::Checks::BeforeCounts);
  for (Graph::Output& output : graph.outputs) output.node = order.placed(output.node);
  add_uniform_needs(graph);
  if (row) graph.symbols.push_back({*row, row->name()});
  return std::make_shared<const Graph>(std::move(graph));
}

std::vector<Tensor> TracedBody::replay(Trace& trace, std::map<NodeId, Tensor> given,
                                       const std::vector<Tensor>& captured) const {
  for (std::size_t k = 0; k < captured_inputs_.size(); ++k)
    given.emplace(captured_inputs_[k], captured.at(k));
  std::map<NodeId, NodeId> now;
  for (const auto& [id, tensor] : given) now[id] = trace.operand(tensor, {});
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    Node node = recorded_[i];
    // A node whose inputs were skipped only leads to given values and is not needed.
    const bool left_out =
        std::ranges::any_of(node.inputs, [&](NodeId input) { return !now.contains(input); });
    if (now.contains(nodes_[i]) || node.op == Op::Input || left_out) continue;
    for (NodeId& input : node.inputs) input = now.at(input);
    trace.set_line(node.where);
    now[nodes_[i]] = trace.add_node(std::move(node), {}).node();
  }
  trace.set_line(std::nullopt);
  const auto moved = [&](const std::vector<NodeId>& ids) {
    std::vector<NodeId> out;
    for (const NodeId id : ids) out.push_back(now.at(id));
    return out;
  };
  for (const NodeId id : stopped_)
    if (now.contains(id)) trace.stop_gradient(now.at(id));
  for (const OwnGradient& own : own_gradients_)
    trace.add_own_gradient({moved(own.inputs), moved(own.outputs), own.backward, own.where});
  std::vector<Tensor> results;
  for (const NodeId id : moved(results_)) results.emplace_back(trace.shared_from_this(), id);
  return results;
}

}  // namespace lockstep::worker
