#include <algorithm>
#include <utility>

#include <lockstep/worker/compile/codegen/plan.h>
#include <lockstep/worker/tensor/graph/index_range.h>
#include <lockstep/worker/tensor/graph/op.h>

namespace lockstep::worker {
namespace {

// A value that costs more than this is stored if it has several uses that cannot share one
// computation.
constexpr int kRecompute = 8;

/// True if the op makes its whole value at once, in memory.
bool always_stored(Op op) {
  switch (op_row(op).kind) {
    case OpClass::Reduction:
    case OpClass::Product:
    case OpClass::Collective:
    case OpClass::Result:
    case OpClass::Own:
      return true;
    case OpClass::Index:
      return !picks(op);
    case OpClass::Source:
      return op == Op::Input;
    case OpClass::View:
      return op == Op::Cat;
    case OpClass::Elementwise:
    case OpClass::HostSync:
    case OpClass::Check:
    case OpClass::Control:
      return false;
  }
  return false;
}

bool has_value(Op op) {
  const OpClass kind = op_row(op).kind;
  return kind != OpClass::HostSync && kind != OpClass::Check && kind != OpClass::Control;
}

/// True if the op reads operand k in an order of its own, so that the operand must be in memory.
bool needs_memory(Op op, std::size_t k) {
  switch (op_row(op).kind) {
    case OpClass::Product:
    case OpClass::Collective:
    case OpClass::HostSync:
    case OpClass::Control:
    case OpClass::Own:
      return true;
    case OpClass::Index:
      if (op == Op::IndexAdd || op == Op::SearchSorted) return k == 0;
      if (op == Op::IndexPut) return k == 1;
      return op != Op::Nonzero && !is_scan(op_row(op));
    case OpClass::View:
      return op == Op::Unfold;  // reads an element once per window
    case OpClass::Source:
    case OpClass::Elementwise:
    case OpClass::Reduction:
    case OpClass::Check:
    case OpClass::Result:
      return false;
  }
  return false;
}

bool has_effect(const Graph& graph, NodeId id) {
  const OpClass kind = op_row(graph.nodes[id].op).kind;
  return kind == OpClass::Collective || kind == OpClass::HostSync || kind == OpClass::Check ||
         may_refuse(graph, id);
}

void mark_live(const Graph& graph, Plan& plan) {
  plan.live.assign(graph.nodes.size(), false);
  for (const Graph::Output& output : graph.outputs) plan.live[output.node] = true;
  for (NodeId id = static_cast<NodeId>(graph.nodes.size()); id-- > 0;) {
    const Node& node = graph.nodes[id];
    if (has_effect(graph, id)) plan.live[id] = true;
    if (!plan.live[id]) continue;
    for (NodeId operand : node.inputs) plan.live[operand] = true;
  }
}

/// Marks the value as stored; for a reshape, the value that it reshapes.
void store(const Graph& graph, std::vector<bool>& stored, NodeId id) {
  while (graph.nodes[id].op == Op::Reshape) id = graph.nodes[id].inputs[0];
  stored[id] = true;
}

std::vector<bool> required(const Graph& graph, const std::vector<bool>& live) {
  std::vector<bool> stored(graph.nodes.size(), false);
  for (const Graph::Output& output : graph.outputs) store(graph, stored, output.node);
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph.nodes[id];
    if (!live[id]) continue;
    if (always_stored(node.op)) stored[id] = true;
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      if (!needs_memory(node.op, k)) continue;
      const Node& operand = graph.nodes[node.inputs[k]];
      // BLAS reads a transposed operand as stored.
      const bool transposed = (node.op == Op::Matmul || (node.op == Op::SegmentMatmul && k == 1)) &&
                              is_transposition(operand);
      store(graph, stored, transposed ? operand.inputs[0] : node.inputs[k]);
    }
  }
  return stored;
}

/// A use of an inline value: the kernel that contains the use, and the last view between the value
/// and that kernel. Two uses with the same sink share one computation.
using Sink = std::pair<NodeId, NodeId>;
constexpr NodeId kNoView = ~NodeId{0};

std::vector<std::vector<Sink>> sinks_of(const Graph& graph, const Plan& plan) {
  std::vector<std::vector<Sink>> sinks(graph.nodes.size());
  for (NodeId id = static_cast<NodeId>(graph.nodes.size()); id-- > 0;) {
    const Node& node = graph.nodes[id];
    std::ranges::sort(sinks[id]);
    sinks[id].erase(std::unique(sinks[id].begin(), sinks[id].end()), sinks[id].end());
    if (!plan.live[id] || !has_value(node.op)) continue;
    const OpClass kind = op_row(node.op).kind;
    const bool moves =
        (kind == OpClass::View && node.op != Op::Reshape && node.op != Op::Cat) || picks(node.op);
    const std::vector<Sink> mine = plan.stored[id] ? std::vector<Sink>{{id, kNoView}} : sinks[id];
    for (NodeId operand : node.inputs)
      for (const Sink& sink : mine) sinks[operand].push_back(moves ? Sink{sink.first, id} : sink);
  }
  return sinks;
}

/// True if the node repeats its operand in an outer loop, which would compute the operand again and
/// again.
bool repeats_outside(const Graph& graph, const Node& node) {
  if (node.op != Op::Expand || is_single(graph.nodes[node.inputs[0]])) return false;
  const auto& from = graph.nodes[node.inputs[0]].meta.sizes;
  bool inner = false;
  for (std::size_t d = from.size(); d-- > 0;) {
    if (from[d] != node.meta.sizes[d] && inner) return true;
    inner = inner || from[d].constant() != std::optional<std::int64_t>(1);
  }
  return false;
}

bool only_drops_ones(const Graph& graph, const Node& node) {
  return long_sizes(graph.nodes[node.inputs[0]].meta.sizes) == long_sizes(node.meta.sizes);
}

bool is_flat(const Graph& graph, const Plan& plan, const Node& node) {
  const auto flat_operands = [&] {
    return std::ranges::all_of(node.inputs, [&](NodeId operand) {
      return plan.in_memory(operand) || is_single(graph.nodes[operand]) || plan.flat[operand];
    });
  };
  if (node.op == Op::Iota) return long_sizes(node.meta.sizes).size() <= 1;
  if (node.op == Op::Expand)
    return is_single(graph.nodes[node.inputs[0]]) ||
           (graph.nodes[node.inputs[0]].meta.sizes == node.meta.sizes && flat_operands());
  if (node.op == Op::Reshape || node.op == Op::CheckedIndex ||
      op_row(node.op).kind == OpClass::Elementwise)
    return flat_operands();
  return node.op == Op::Full || node.op == Op::Scalar;
}

}  // namespace

bool is_single(const Node& node) { return long_sizes(node.meta.sizes).empty(); }

std::vector<shapes::Expr> long_sizes(std::span<const shapes::Expr> sizes) {
  std::vector<shapes::Expr> out;
  for (const shapes::Expr& size : sizes)
    if (size.constant() != std::optional<std::int64_t>(1)) out.push_back(size);
  return out;
}

bool is_transposition(const Node& node) {
  if (node.op != Op::Permute || node.ints.size() < 2) return false;
  const auto last = static_cast<std::int64_t>(node.ints.size()) - 1;
  for (std::int64_t d = 0; d < last - 1; ++d)
    if (node.ints[static_cast<std::size_t>(d)] != d) return false;
  return node.ints[static_cast<std::size_t>(last)] == last - 1;
}

std::vector<bool> required_in_memory(const Graph& graph, const Plan& plan) {
  return required(graph, plan.live);
}

void choose_storage(const Graph& graph, Plan& plan) {
  const auto count = graph.nodes.size();
  mark_live(graph, plan);
  plan.stored = required(graph, plan.live);
  plan.storage.resize(count);
  plan.flat.assign(count, false);
  const auto sinks = sinks_of(graph, plan);
  std::vector<int> cost(count, 0);  // cost of computing one element where it is used
  for (NodeId id = 0; id < count; ++id) {
    const Node& node = graph.nodes[id];
    plan.storage[id] = node.op == Op::Reshape ? plan.storage[node.inputs[0]] : id;
    if (!plan.live[id]) continue;
    if (node.op == Op::Reshape && !only_drops_ones(graph, node) && !is_single(node) &&
        !plan.in_memory(node.inputs[0]) && !plan.flat[node.inputs[0]])
      plan.stored[plan.storage[id]] = true;
    if (repeats_outside(graph, node) && cost[node.inputs[0]] > kRecompute &&
        !plan.in_memory(node.inputs[0]))
      store(graph, plan.stored, node.inputs[0]);
    plan.flat[id] = is_flat(graph, plan, node);
    cost[id] = op_row(node.op).cost;
    for (NodeId operand : node.inputs)
      cost[id] = std::min(cost[id] + (plan.in_memory(operand) ? 1 : cost[operand]), 1000);
    if (cost[id] > kRecompute && sinks[id].size() > 1 && has_value(node.op) &&
        node.op != Op::Reshape)
      plan.stored[id] = true;
  }
}

}  // namespace lockstep::worker
