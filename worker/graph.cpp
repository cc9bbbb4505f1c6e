// Fingerprints of graphs: canonical content only, field by field, each delimited.
#include <bit>
#include <cmath>
#include <limits>

#include <lockstep/worker/graph.h>
#include <lockstep/worker/op.h>

namespace lockstep::worker {
namespace {

using shapes::Fingerprint;
using shapes::FingerprintBuilder;

void add_count(FingerprintBuilder& out, std::size_t n) { out.add(static_cast<std::int64_t>(n)); }

void add_symbol(FingerprintBuilder& out, shapes::Symbol symbol) {
  out.add(std::int64_t{symbol.unbacked}).add(std::int64_t{symbol.serial});
}

void add_exprs(FingerprintBuilder& out, const std::vector<shapes::Expr>& exprs) {
  add_count(out, exprs.size());
  for (const shapes::Expr& expr : exprs) out.add(expr.text());
}

}  // namespace

Fingerprint node_fingerprint(const Node& node) {
  FingerprintBuilder out;
  out.add(static_cast<std::int64_t>(node.op));
  add_count(out, node.inputs.size());
  for (const NodeId id : node.inputs) out.add(std::int64_t{id});
  add_exprs(out, node.exprs);
  add_count(out, node.ints.size());
  for (const std::int64_t i : node.ints) out.add(i);
  // One kind of not-a-number: its sign and payload differ between machines.
  const double number =
      std::isnan(node.number) ? std::numeric_limits<double>::quiet_NaN() : node.number;
  out.add(std::bit_cast<std::int64_t>(number)).add(node.text);
  add_count(out, node.asserts.size());
  for (const shapes::DeferredAssert& a : node.asserts) out.add(a.predicate.text()).add(a.message);
  out.add(static_cast<std::int64_t>(node.meta.dtype));
  add_exprs(out, node.meta.sizes);
  add_count(out, node.binds.size());
  for (const shapes::Symbol symbol : node.binds) add_symbol(out, symbol);
  return out.finish();
}

std::vector<Fingerprint> Graph::prefix_fingerprints() const {
  std::vector<Fingerprint> prefixes;
  prefixes.reserve(nodes.size());
  Fingerprint last = shapes::fingerprint(name);
  for (const Node& node : nodes) {
    last = FingerprintBuilder().add(last).add(node_fingerprint(node)).finish();
    prefixes.push_back(last);
  }
  return prefixes;
}

Fingerprint Graph::fingerprint() const {
  FingerprintBuilder out;
  out.add("lockstep.graph/1").add(name);
  add_count(out, nodes.size());
  const std::vector<Fingerprint> prefixes = prefix_fingerprints();
  if (!prefixes.empty()) out.add(prefixes.back());
  add_count(out, outputs.size());
  for (const Output& output : outputs) out.add(output.name).add(std::int64_t{output.node});
  add_count(out, symbols.size());
  for (const SymbolBinding& binding : symbols) {
    add_symbol(out, binding.symbol);
    out.add(binding.source);
  }
  add_count(out, guards.size());
  for (const shapes::Guard& guard : guards) out.add(guard.predicate.text());
  add_count(out, group_guards.size());
  for (const GroupGuard& guard : group_guards)
    out.add(guard.predicate.text())
        .add(static_cast<std::int64_t>(guard.over))
        .add(std::int64_t{guard.value});
  return out.finish();
}

Fingerprint Graph::collectives_fingerprint() const {
  FingerprintBuilder out;
  out.add("lockstep.collectives/1");
  for (const Node& node : nodes) {
    const OpClass kind = op_row(node.op).kind;
    if (kind != OpClass::Collective && kind != OpClass::HostSync) continue;
    out.add(op_row(node.op).name).add(static_cast<std::int64_t>(node.meta.dtype));
    add_count(out, node.ints.size());
    for (const std::int64_t value : node.ints) out.add(value);
    add_count(out, node.exprs.size());
    // The number of rows may differ between ranks; what a row is may not.
    for (std::size_t d = 1; d < node.meta.sizes.size(); ++d) out.add(node.meta.sizes[d].text());
  }
  return out.finish();
}

}  // namespace lockstep::worker
