// Fingerprints of graphs: canonical content only, field by field, each delimited.
#include <bit>
#include <cmath>
#include <limits>

#include <lockstep/worker/agree/exchange/rank_constant.h>
#include <lockstep/worker/tensor/graph/control.h>
#include <lockstep/worker/tensor/graph/graph.h>
#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/graph/own_op.h>

namespace lockstep::worker {
namespace {

using shapes::Fingerprint;
using shapes::FingerprintBuilder;

void add_count(FingerprintBuilder& out, std::size_t n) { out.add(static_cast<std::int64_t>(n)); }

/// Two fingerprints at a time: an exact one, and one without the values of constants.
class Prints {
 public:
  template <class T>
  Prints& add(const T& same) {
    exact_.add(same);
    skeleton_.add(same);
    return *this;
  }
  /// Adds text that may contain constants.
  Prints& text(const std::string& text) {
    exact_.add(text);
    skeleton_.add(without_numbers(text));
    return *this;
  }
  /// Adds one constant.
  Prints& constant(std::int64_t value) {
    exact_.add(value);
    skeleton_.add(std::int64_t{0});
    return *this;
  }
  Prints& count(std::size_t n) { return add(static_cast<std::int64_t>(n)); }
  Prints& symbol(shapes::Symbol symbol) {
    return add(std::int64_t{symbol.unbacked}).add(std::int64_t{symbol.serial});
  }
  Prints& exprs(const std::vector<shapes::Expr>& exprs) {
    count(exprs.size());
    for (const shapes::Expr& expr : exprs) text(expr.text());
    return *this;
  }
  struct Both {
    Fingerprint exact, skeleton;
  };
  Prints& add(const Both& other) {
    exact_.add(other.exact);
    skeleton_.add(other.skeleton);
    return *this;
  }
  [[nodiscard]] Both finish() const { return {exact_.finish(), skeleton_.finish()}; }

 private:
  FingerprintBuilder exact_, skeleton_;
};

Prints::Both prints_of(const Node& node) {
  Prints out;
  out.add(static_cast<std::int64_t>(node.op)).count(node.inputs.size());
  for (const NodeId id : node.inputs) out.add(std::int64_t{id});
  out.exprs(node.exprs).count(node.ints.size());
  for (const std::int64_t i : node.ints) node.op == Op::Broadcast ? out.constant(i) : out.add(i);
  // All not-a-numbers count as one, because sign and payload differ between machines.
  const double number =
      std::isnan(node.number) ? std::numeric_limits<double>::quiet_NaN() : node.number;
  out.constant(std::bit_cast<std::int64_t>(number)).add(node.text).count(node.asserts.size());
  for (const shapes::DeferredAssert& a : node.asserts) out.text(a.predicate.text()).add(a.message);
  out.add(static_cast<std::int64_t>(node.meta.dtype)).exprs(node.meta.sizes);
  out.count(node.binds.size());
  for (const shapes::Symbol symbol : node.binds) out.symbol(symbol);
  // Omitted if empty, like the uniform sizes below.
  if (!node.bodies.empty()) out.count(node.bodies.size());
  for (const auto& body : node.bodies) {
    const GraphPrints prints = prints_of(*body);
    out.add(Prints::Both{prints.graph, prints.skeleton});
  }
  if (node.own) out.add(node.own->fingerprint());
  return out.finish();
}

}  // namespace

GraphPrints prints_of(const Graph& graph) {
  GraphPrints prints;
  prints.prefixes.reserve(graph.nodes.size());
  const Fingerprint name = shapes::fingerprint(graph.name);
  Prints::Both last{name, name};
  for (const Node& node : graph.nodes) {
    last = Prints().add(last).add(prints_of(node)).finish();
    prints.prefixes.push_back(last.exact);
  }
  Prints out;
  out.add("lockstep.graph/1").add(graph.name).count(graph.nodes.size());
  if (!graph.nodes.empty()) out.add(last);
  out.count(graph.outputs.size());
  for (const Graph::Output& output : graph.outputs)
    out.add(output.name).add(std::int64_t{output.node});
  out.count(graph.symbols.size());
  for (const SymbolBinding& binding : graph.symbols) out.symbol(binding.symbol).add(binding.source);
  out.count(graph.guards.size());
  for (const shapes::Guard& guard : graph.guards) out.text(guard.predicate.text());
  out.count(graph.group_guards.size());
  for (const GroupGuard& guard : graph.group_guards)
    out.text(guard.predicate.text())
        .add(static_cast<std::int64_t>(guard.over))
        .add(std::int64_t{guard.value});
  // Omitted if empty: fingerprints from before uniform sizes existed stay valid.
  if (!graph.uniform.empty()) out.add("uniform").count(graph.uniform.size());
  for (const UniformSize& size : graph.uniform) out.text(size.expr.text()).add(size.group);
  const Prints::Both whole = out.finish();
  prints.graph = whole.exact;
  prints.skeleton = whole.skeleton;
  return prints;
}

Fingerprint node_fingerprint(const Node& node) { return prints_of(node).exact; }

std::vector<UniformSize> Graph::agreed_uniform() const {
  std::vector<UniformSize> out;
  for (const UniformSize& size : uniform)
    if (size.group.empty()) out.push_back(size);
  return out;
}

std::vector<HostValue> Graph::host_values() const {
  std::vector<HostValue> out;
  for (const SymbolBinding& binding : symbols)
    if (!binding.value.steps.empty()) out.push_back(binding.value);
  return out;
}

Fingerprint Graph::fingerprint() const { return prints_of(*this).graph; }

std::string joint_size_text(const shapes::Expr& size) {
  return size.constant() ? size.text() : "?";
}

std::vector<NodeId> Graph::joint_nodes() const {
  std::vector<NodeId> joint;
  for (NodeId id = 0; id < nodes.size(); ++id)
    if (is_joint(nodes[id].op) || runs_collectives(nodes[id])) joint.push_back(id);
  return joint;
}

std::vector<Fingerprint> Graph::joint_prefixes() const {
  std::vector<Fingerprint> prefixes;
  Fingerprint last = shapes::fingerprint("lockstep.collectives/1");
  for (const NodeId id : joint_nodes()) {
    const Node& node = nodes[id];
    FingerprintBuilder out;
    out.add(last).add(op_row(node.op).name).add(static_cast<std::int64_t>(node.meta.dtype));
    out.add(node.text);
    add_count(out, node.ints.size());
    for (const std::int64_t value : node.ints) out.add(value);
    if (node.bodies.empty()) add_count(out, node.exprs.size());
    if (node.own) out.add(node.own->fingerprint());
    // The number of rows received by all_to_all may differ between ranks, and so may all sizes of
    // an own op or host call; no others may.
    std::size_t d = node.op == Op::AllToAll ? 1 : node.own ? node.meta.sizes.size() : 0;
    for (; d < node.meta.sizes.size(); ++d) out.add(joint_size_text(node.meta.sizes[d]));
    for (const auto& body : node.bodies) out.add(body->collectives_fingerprint());
    prefixes.push_back(last = out.finish());
  }
  return prefixes;
}

Fingerprint Graph::collectives_fingerprint() const {
  const std::vector<Fingerprint> prefixes = joint_prefixes();
  return prefixes.empty() ? shapes::fingerprint("lockstep.collectives/1") : prefixes.back();
}

}  // namespace lockstep::worker
