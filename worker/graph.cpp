// Fingerprints of graphs: canonical content only, field by field, each delimited.
#include <bit>
#include <cmath>
#include <limits>

#include <lockstep/worker/graph.h>
#include <lockstep/worker/op.h>
#include <lockstep/worker/rank_constant.h>

namespace lockstep::worker {
namespace {

using shapes::Fingerprint;
using shapes::FingerprintBuilder;

void add_count(FingerprintBuilder& out, std::size_t n) { out.add(static_cast<std::int64_t>(n)); }

void add_symbol(FingerprintBuilder& out, shapes::Symbol symbol) {
  out.add(std::int64_t{symbol.unbacked}).add(std::int64_t{symbol.serial});
}

/// What stands for the constants of a graph in its fingerprint.
enum class Constants : std::uint8_t { Exact, Masked };

std::string text_of(std::string text, Constants constants) {
  return constants == Constants::Exact ? text : without_numbers(text);
}

void add_exprs(FingerprintBuilder& out, const std::vector<shapes::Expr>& exprs, Constants as) {
  add_count(out, exprs.size());
  for (const shapes::Expr& expr : exprs) out.add(text_of(expr.text(), as));
}

Fingerprint fingerprint_of(const Node& node, Constants as) {
  FingerprintBuilder out;
  out.add(static_cast<std::int64_t>(node.op));
  add_count(out, node.inputs.size());
  for (const NodeId id : node.inputs) out.add(std::int64_t{id});
  add_exprs(out, node.exprs, as);
  add_count(out, node.ints.size());
  const bool masks_ints = as == Constants::Masked && node.op == Op::Broadcast;
  for (const std::int64_t i : node.ints) out.add(masks_ints ? 0 : i);
  // One kind of not-a-number: its sign and payload differ between machines.
  const double number =
      std::isnan(node.number) ? std::numeric_limits<double>::quiet_NaN() : node.number;
  out.add(as == Constants::Masked ? 0 : std::bit_cast<std::int64_t>(number)).add(node.text);
  add_count(out, node.asserts.size());
  for (const shapes::DeferredAssert& a : node.asserts)
    out.add(text_of(a.predicate.text(), as)).add(a.message);
  out.add(static_cast<std::int64_t>(node.meta.dtype));
  add_exprs(out, node.meta.sizes, as);
  add_count(out, node.binds.size());
  for (const shapes::Symbol symbol : node.binds) add_symbol(out, symbol);
  return out.finish();
}

std::vector<Fingerprint> prefixes_of(const Graph& graph, Constants as) {
  std::vector<Fingerprint> prefixes;
  prefixes.reserve(graph.nodes.size());
  Fingerprint last = shapes::fingerprint(graph.name);
  for (const Node& node : graph.nodes) {
    last = FingerprintBuilder().add(last).add(fingerprint_of(node, as)).finish();
    prefixes.push_back(last);
  }
  return prefixes;
}

Fingerprint fingerprint_of(const Graph& graph, Constants as) {
  FingerprintBuilder out;
  out.add("lockstep.graph/1").add(graph.name);
  add_count(out, graph.nodes.size());
  const std::vector<Fingerprint> prefixes = prefixes_of(graph, as);
  if (!prefixes.empty()) out.add(prefixes.back());
  add_count(out, graph.outputs.size());
  for (const Graph::Output& output : graph.outputs)
    out.add(output.name).add(std::int64_t{output.node});
  add_count(out, graph.symbols.size());
  for (const SymbolBinding& binding : graph.symbols) {
    add_symbol(out, binding.symbol);
    out.add(binding.source);
  }
  add_count(out, graph.guards.size());
  for (const shapes::Guard& guard : graph.guards) out.add(text_of(guard.predicate.text(), as));
  add_count(out, graph.group_guards.size());
  for (const GroupGuard& guard : graph.group_guards)
    out.add(text_of(guard.predicate.text(), as))
        .add(static_cast<std::int64_t>(guard.over))
        .add(std::int64_t{guard.value});
  return out.finish();
}

}  // namespace

Fingerprint node_fingerprint(const Node& node) { return fingerprint_of(node, Constants::Exact); }

std::vector<Fingerprint> Graph::prefix_fingerprints() const {
  return prefixes_of(*this, Constants::Exact);
}

Fingerprint Graph::fingerprint() const { return fingerprint_of(*this, Constants::Exact); }

Fingerprint Graph::skeleton_fingerprint() const { return fingerprint_of(*this, Constants::Masked); }

std::vector<NodeId> Graph::joint_nodes() const {
  std::vector<NodeId> joint;
  for (NodeId id = 0; id < nodes.size(); ++id) {
    const OpClass kind = op_row(nodes[id].op).kind;
    if (kind == OpClass::Collective || kind == OpClass::HostSync) joint.push_back(id);
  }
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
    add_count(out, node.exprs.size());
    // The number of rows that all_to_all gives may differ between ranks; all other sizes may not.
    for (std::size_t d = node.op == Op::AllToAll ? 1 : 0; d < node.meta.sizes.size(); ++d)
      out.add(node.meta.sizes[d].text());
    prefixes.push_back(last = out.finish());
  }
  return prefixes;
}

Fingerprint Graph::collectives_fingerprint() const {
  const std::vector<Fingerprint> prefixes = joint_prefixes();
  return prefixes.empty() ? shapes::fingerprint("lockstep.collectives/1") : prefixes.back();
}

}  // namespace lockstep::worker
