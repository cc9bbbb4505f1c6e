#include <algorithm>
#include <limits>
#include <optional>
#include <span>

#include <lockstep/collectives/communicator.h>
#include <lockstep/worker/tensor/graph/control.h>
#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/graph/own_op.h>
#include <lockstep/worker/tensor/graph/uniform_facts.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;
using shapes::Symbol;

/// Limit of groups in one graph; further groups count as having no uniform sizes.
constexpr int kMostGroups = 64;

bool is_backed(const Expr& size) {
  return std::ranges::none_of(size.symbols(), [](Symbol symbol) { return symbol.unbacked; });
}

/// True if equal operands give the same bits on every rank: arithmetic on floats may not, between
/// compilers and machines.
bool is_exact(const Node& node) {
  if (node.op == Op::HostCall) return false;
  if (node.own && !node.own->claims.deterministic) return false;
  return !is_float(node.meta.dtype) || op_row(node.op).is(OpRow::Exact);
}

/// True if the collective gives all ranks of its group the same bits.
bool gives_all_the_same(const Node& node) {
  using collectives::Reduce;
  if (node.op == Op::Broadcast || node.op == Op::AllGather) return true;
  if (node.op != Op::AllReduce) return false;
  const auto reduce = static_cast<Reduce>(node.ints.at(0));
  return !is_float(node.meta.dtype) || reduce == Reduce::Min || reduce == Reduce::Max;
}

/// a / b if that is a whole number.
std::optional<std::int64_t> quotient(std::int64_t a, std::int64_t b) {
  if (b == 0 || (b == -1 && a == std::numeric_limits<std::int64_t>::min()) || a % b != 0)
    return std::nullopt;
  return a / b;
}

/// Compares atoms by address, because equal atoms are one object.
bool same_factors(const Expr::Term& a, const Expr::Term& b) {
  return std::ranges::equal(a.factors, b.factors, [](const auto& x, const auto& y) {
    return x.atom == y.atom && x.power == y.power;
  });
}

/// The factor by which `whole` contains `part`, from the first term of `part` that is no constant.
std::optional<std::int64_t> times_in(const Expr& whole, const Expr& part) {
  for (const Expr::Term& term : part.terms()) {
    if (term.factors.empty()) continue;
    for (const Expr::Term& other : whole.terms())
      if (same_factors(other, term)) return quotient(other.coefficient, term.coefficient);
    return std::nullopt;
  }
  return std::nullopt;
}

/// The needs of a node with bodies: the trips of a scan, and the needs of the bodies.
std::vector<Expr> needs_of_bodies(const Node& node) {
  std::vector<Expr> needs;
  if (node.op == Op::Scan) needs.push_back(node.exprs.at(0));
  for (const auto& body : node.bodies)
    for (const UniformSize& size : body->agreed_uniform()) needs.push_back(size.expr);
  return needs;
}

}  // namespace

std::vector<Expr> uniform_needs(const std::vector<Node>& nodes, const Node& collective) {
  if (!collective.bodies.empty()) return needs_of_bodies(collective);
  const std::vector<Expr>& sizes = nodes[collective.inputs.at(0)].meta.sizes;
  if (collective.op != Op::AllToAll) return sizes;
  std::vector<Expr> needs(sizes.begin() + 1, sizes.end());
  const std::vector<Expr>& splits = collective.exprs;
  if (std::ranges::all_of(splits, [&](const Expr& split) { return split == splits[0]; }))
    needs.push_back(splits.at(0));
  return needs;
}

UniformFacts::Groups UniformFacts::bit(const std::string& group) const {
  if (group.empty()) return kFrame;
  const auto found = groups_.find(group);
  return found == groups_.end() ? 0 : found->second;
}

UniformFacts::Groups UniformFacts::added(const std::string& group) {
  if (groups_.size() + 1 < kMostGroups) groups_.emplace(group, Groups{2} << groups_.size());
  return bit(group);
}

UniformFacts::Groups UniformFacts::named(const std::string& group) {
  if (group.empty()) return kAll;
  Groups groups = added(group);
  if (const auto within = nesting_.find(group); within != nesting_.end())
    for (const std::string& inner : within->second) groups |= added(inner);
  return groups;
}

void UniformFacts::learn(const Expr& size, const std::string& group) {
  const Groups groups = named(group);
  if (groups == 0) return;
  if (const auto symbol = size.as_symbol())
    symbols_[*symbol] |= groups;
  else
    known_.push_back({size, groups});
}

bool UniformFacts::uniform(const Expr& size, const std::string& group) const try {
  if (size.constant()) return true;
  // For a group not named so far, only facts about the frame's group are known.
  const Groups in = bit(group);
  return uniform_in(size, in == 0 ? kFrame : in);
} catch (const shapes::OverflowError&) {
  return false;
}

bool UniformFacts::uniform_in(const Expr& size, Groups group) const {
  return of_uniform_parts(size, group) || is_multiple_of_known(size, group);
}

bool UniformFacts::of_uniform_parts(const Expr& size, Groups group) const {
  const auto atom = [&](const Expr::Factor& factor) {
    if (factor.atom->op != Expr::Op::Symbol)
      return std::ranges::all_of(factor.atom->operands,
                                 [&](const Expr& operand) { return uniform_in(operand, group); });
    const auto known = symbols_.find(factor.atom->symbol);
    return known != symbols_.end() && (known->second & group) != 0;
  };
  return std::ranges::all_of(size.terms(), [&](const Expr::Term& term) {
    return std::ranges::all_of(term.factors, atom);
  });
}

/// True for a multiple of a known size plus a uniform rest.
bool UniformFacts::is_multiple_of_known(const Expr& size, Groups group) const {
  return std::ranges::any_of(known_, [&](const Known& known) {
    if ((known.groups & group) == 0) return false;
    const auto times = times_in(size, known.size);
    return times && of_uniform_parts(size - known.size * *times, group);
  });
}

void UniformFacts::pass() {
  const Node& node = nodes_[next()];
  const Groups same = same_values(node);
  values_.push_back(same);
  if (op_row(node.op).kind == OpClass::HostSync)
    for (const Symbol symbol : node.binds) symbols_[symbol] |= same;
}

void add_needs(const std::vector<Node>& nodes, UniformFacts& facts,
               std::vector<UniformSize>& uniform) {
  const Node& node = nodes[facts.next()];
  if (!runs_collectives(node)) return;
  for (const Expr& size : uniform_needs(nodes, node)) {
    if (facts.uniform(size, node.text)) continue;
    facts.learn(size, node.text);
    if (is_backed(size))
      uniform.push_back({size, node.text, std::string(op_row(node.op).name), node.where});
  }
}

UniformFacts::Groups UniformFacts::same_values(const Node& node) {
  const OpClass kind = op_row(node.op).kind;
  if (node.op == Op::Input || kind == OpClass::Check || kind == OpClass::Control ||
      kind == OpClass::Result)
    return 0;
  if (kind == OpClass::Collective) return gives_all_the_same(node) ? named(node.text) : 0;
  if (!is_exact(node)) return 0;
  Groups same = kAll;
  for (const NodeId input : node.inputs) same &= values_.at(input);
  for (const auto* sizes : {&node.exprs, &node.meta.sizes})
    for (const Expr& size : *sizes) same &= same_in(size);
  return same;
}

/// The groups on whose ranks the size is the same.
UniformFacts::Groups UniformFacts::same_in(const Expr& size) const {
  if (uniform(size, "")) return kAll;
  Groups same = 0;
  for (const auto& [name, bit] : groups_)
    if (uniform(size, name)) same |= bit;
  return same;
}

void add_uniform_needs(Graph& graph) {
  if (graph.peers_may_differ) return;
  UniformFacts facts(graph.nodes, graph.nesting);
  for (const UniformSize& size : graph.uniform) facts.learn(size.expr, size.group);
  while (facts.next() < graph.nodes.size()) {
    add_needs(graph.nodes, facts, graph.uniform);
    facts.pass();
  }
}

}  // namespace lockstep::worker
