#include <algorithm>
#include <span>

#include <lockstep/worker/count_limit.h>
#include <lockstep/worker/op.h>
#include <lockstep/worker/settled_facts.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;
using shapes::Predicate;
using shapes::Symbol;

std::int64_t ranks_of(const Node& exchange) {
  return static_cast<std::int64_t>(exchange.exprs.size() / 2);
}

bool equal_constant_splits(const Node& node) {
  return node.op == Op::AllToAll && node.exprs[0].constant() &&
         std::ranges::all_of(node.exprs, [&](const Expr& e) { return e == node.exprs[0]; });
}

/// The op treats each of `ranks` equal blocks of the operand's elements, in row-major order, alike
/// and apart from the others.
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

SettledFacts::SettledFacts(const Graph& graph) : graph_(graph) {
  for (const SymbolBinding& binding : graph.symbols)
    if (binding.source.find(".size(") != std::string::npos)
      settled_.push_back(shapes::greater_equal(Expr::symbol(binding.symbol), 0));
}

void SettledFacts::pass(NodeId id) {
  const Node& at = node(id);
  for (std::size_t k = 0; k < at.binds.size(); ++k) bound_[at.binds[k]] = {id, k};
  pass_counts(at);
  if (const auto twin = sent_twin(id)) twins_[id] = *twin;
  if (at.op != Op::Assert) return;
  const Predicate& predicate = at.asserts.at(0).predicate;
  (holds(predicate) ? settled_ : pending_).push_back(predicate);
}

/// Counts cannot be negative, nor more than what was counted, on any rank.
void SettledFacts::pass_counts(const Node& at) try {
  const auto limit = at.binds.empty() ? std::nullopt : count_limit(graph_.nodes, at.inputs.at(0));
  for (const Symbol symbol : at.binds) {
    if (!limit) return;
    settled_.push_back(shapes::greater_equal(Expr::symbol(symbol), 0));
    settled_.push_back(shapes::less_equal(Expr::symbol(symbol), *limit));
  }
} catch (const shapes::OverflowError&) {
  // Then the asserts are tested when the graph runs, and told of.
}

void SettledFacts::settle() {
  settled_.insert(settled_.end(), pending_.begin(), pending_.end());
  pending_.clear();
}

bool SettledFacts::settled(const Predicate& predicate) const {
  return predicate.constant() == std::optional<bool>(true) ||
         std::ranges::find(settled_, predicate) != settled_.end();
}

bool SettledFacts::holds(const Predicate& predicate) const try {
  return settled(predicate) || holds_on_the_sender(predicate);
} catch (const shapes::OverflowError&) {
  return false;
}

bool SettledFacts::never_negative(const Expr& expr) const {
  if (settled(shapes::greater_equal(expr, 0))) return true;
  return std::ranges::all_of(expr.terms(), [&](const Expr::Term& term) {
    return term.coefficient >= 0 &&
           std::ranges::all_of(term.factors, [&](const Expr::Factor& factor) {
             const Expr value = Expr::of_atom(factor.atom);
             return value.as_symbol() && settled(shapes::greater_equal(value, 0));
           });
  });
}

bool SettledFacts::add_up(std::span<const Expr> counts, const Expr& rows) const try {
  return settled(shapes::equal(shapes::sum(counts), rows)) &&
         std::ranges::all_of(counts, [&](const Expr& e) { return never_negative(e); });
} catch (const shapes::OverflowError&) {
  return false;
}

bool SettledFacts::in_doubt(Symbol symbol) const {
  return std::ranges::any_of(pending_, [&](const Predicate& predicate) {
    const auto symbols = predicate.expr.symbols();
    return std::ranges::find(symbols, symbol) != symbols.end();
  });
}

/// `id` is made of what an exchange of equal blocks brought just as the answer is made of what was
/// sent: block p of it, here, is block (this rank) of the answer on rank p.
std::optional<NodeId> SettledFacts::sent_twin(NodeId id) const {
  const Node& at = node(id);
  if (equal_constant_splits(at)) return at.inputs[0];
  if (at.inputs.size() != 1) return std::nullopt;
  const auto operand = twins_.find(at.inputs[0]);
  if (operand == twins_.end()) return std::nullopt;
  NodeId exchange = at.inputs[0];
  while (node(exchange).op != Op::AllToAll) exchange = node(exchange).inputs[0];
  if (at.op != Op::ToList && !works_by_blocks(at, node(at.inputs[0]), ranks_of(node(exchange))))
    return std::nullopt;
  for (NodeId other = 0; other < id; ++other)
    if (node(other).inputs.size() == 1 && node(other).inputs[0] == operand->second &&
        same_op(node(other), at))
      return other;
  return std::nullopt;
}

/// A predicate on one received value: the rank that sent it has asserted the same of all that it
/// sends at that place of a block.
bool SettledFacts::holds_on_the_sender(const Predicate& predicate) const {
  const auto symbols = predicate.expr.symbols();
  const auto bound = symbols.size() == 1 ? bound_.find(symbols[0]) : bound_.end();
  if (bound == bound_.end()) return false;
  const auto [list, element] = bound->second;
  const auto twin = twins_.find(list);
  if (twin == twins_.end()) return false;
  NodeId exchange = list;
  while (node(exchange).op != Op::AllToAll) exchange = node(exchange).inputs[0];
  const auto ranks = static_cast<std::size_t>(ranks_of(node(exchange)));
  const std::vector<Symbol>& sent = node(twin->second).binds;
  if (sent.size() != node(list).binds.size() || sent.size() % ranks != 0) return false;
  const std::size_t block = sent.size() / ranks;
  for (std::size_t at = element % block; at < sent.size(); at += block)
    if (!settled(predicate.substitute(symbols[0], Expr::symbol(sent[at])))) return false;
  return true;
}

}  // namespace lockstep::worker
