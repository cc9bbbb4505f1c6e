#include <algorithm>
#include <span>

#include <lockstep/worker/count_limit.h>
#include <lockstep/worker/settled_facts.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;
using shapes::Predicate;
using shapes::Symbol;

}  // namespace

SettledFacts::SettledFacts(const Graph& graph, const ExchangedBlocks& blocks)
    : graph_(graph), blocks_(blocks) {
  for (const SymbolBinding& binding : graph.symbols)
    if (binding.source.find(".size(") != std::string::npos)
      settled_.push_back(shapes::greater_equal(Expr::symbol(binding.symbol), 0));
}

void SettledFacts::pass(NodeId id) {
  const Node& at = node(id);
  pass_counts(at);
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

/// A predicate on one received value: the rank that sent it has asserted the same of all that it
/// sends at that place of a block.
bool SettledFacts::holds_on_the_sender(const Predicate& predicate) const {
  const auto symbols = predicate.expr.symbols();
  const auto bound = symbols.size() == 1 ? blocks_.binder(symbols[0]) : std::nullopt;
  if (!bound) return false;
  const auto [list, element] = *bound;
  const auto twin = blocks_.sent(list);
  if (!twin) return false;
  const std::size_t ranks = blocks_.exchange(list).exprs.size() / 2;
  const std::vector<Symbol>& sent = node(*twin).binds;
  if (sent.size() != node(list).binds.size() || sent.size() % ranks != 0) return false;
  const std::size_t block = sent.size() / ranks;
  for (std::size_t at = element % block; at < sent.size(); at += block)
    if (!settled(predicate.substitute(symbols[0], Expr::symbol(sent[at])))) return false;
  return true;
}

}  // namespace lockstep::worker
