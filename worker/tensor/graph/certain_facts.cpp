#include <algorithm>
#include <span>

#include <lockstep/worker/tensor/graph/certain_facts.h>
#include <lockstep/worker/tensor/graph/count_limit.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;
using shapes::Predicate;
using shapes::Symbol;

/// The fact (x // n) * n == x, if the predicate is x % n == 0; nullopt for other predicates.
std::optional<Predicate> whole_quotient(const Predicate& predicate) try {
  const auto terms = predicate.expr.terms();
  if (predicate.relation != Predicate::Relation::Equal || terms.size() != 1 ||
      terms[0].factors.size() != 1)
    return std::nullopt;
  const Expr::Atom& atom = *terms[0].factors[0].atom;
  if (atom.op != Expr::Op::Mod) return std::nullopt;
  const Expr& x = atom.operands[0];
  const Expr& n = atom.operands[1];
  return shapes::equal(shapes::floor_div(x, n) * n, x);
} catch (const shapes::OverflowError&) {
  return std::nullopt;
}

}  // namespace

CertainFacts::CertainFacts(const Graph& graph, const ExchangedBlocks& blocks)
    : graph_(graph), blocks_(blocks) {
  for (const SymbolBinding& binding : graph.symbols)
    if (binding.source.find(".size(") != std::string::npos)
      certain_.push_back(shapes::greater_equal(Expr::symbol(binding.symbol), 0));
  // Guards hold on all ranks: they decide which entry runs.
  for (const shapes::Guard& guard : graph.guards) certain_on_all(guard.predicate);
}

void CertainFacts::certain_on_all(const Predicate& predicate) {
  certain_.push_back(predicate);
  if (auto also = whole_quotient(predicate)) certain_.push_back(*std::move(also));
}

void CertainFacts::pass(NodeId id) {
  const Node& at = node(id);
  pass_counts(at);
  if (at.op != Op::Assert) return;
  const Predicate& predicate = at.asserts.at(0).predicate;
  if (holds(predicate))
    certain_on_all(predicate);
  else
    pending_.push_back(predicate);
}

/// Counts are not negative and not above the number of counted elements, on any rank.
void CertainFacts::pass_counts(const Node& at) try {
  const auto limit = at.binds.empty() ? std::nullopt : count_limit(graph_.nodes, at.inputs.at(0));
  for (const Symbol symbol : at.binds) {
    if (!limit) return;
    certain_.push_back(shapes::greater_equal(Expr::symbol(symbol), 0));
    certain_.push_back(shapes::less_equal(Expr::symbol(symbol), *limit));
  }
} catch (const shapes::OverflowError&) {
  // Without these facts, the asserts are tested when the graph runs, and reported.
}

void CertainFacts::confirm() {
  for (const Predicate& predicate : pending_) certain_on_all(predicate);
  pending_.clear();
}

bool CertainFacts::certain(const Predicate& predicate) const {
  return predicate.constant() == std::optional<bool>(true) ||
         std::ranges::find(certain_, predicate) != certain_.end();
}

bool CertainFacts::holds(const Predicate& predicate) const try {
  return certain(predicate) || holds_on_the_sender(predicate) || holds_of_the_number(predicate);
} catch (const shapes::OverflowError&) {
  return false;
}

bool CertainFacts::never_negative(const Expr& expr) const {
  if (certain(shapes::greater_equal(expr, 0))) return true;
  return std::ranges::all_of(expr.terms(), [&](const Expr::Term& term) {
    return term.coefficient >= 0 &&
           std::ranges::all_of(term.factors, [&](const Expr::Factor& factor) {
             const Expr::Atom& atom = *factor.atom;
             const bool quotient =
                 atom.op == Expr::Op::FloorDiv && atom.operands[1].constant().value_or(0) > 0;
             if (quotient) return never_negative(atom.operands[0]);
             const Expr value = Expr::of_atom(factor.atom);
             return value.as_symbol() && certain(shapes::greater_equal(value, 0));
           });
  });
}

bool CertainFacts::add_up(std::span<const Expr> counts, const Expr& rows) const try {
  return certain(shapes::equal(shapes::sum(counts), rows)) &&
         std::ranges::all_of(counts, [&](const Expr& e) { return never_negative(e); });
} catch (const shapes::OverflowError&) {
  return false;
}

/// True for a predicate on one received number that holds for the number that every rank sends.
bool CertainFacts::holds_of_the_number(const Predicate& predicate) const {
  const auto symbols = predicate.expr.symbols();
  const auto number = symbols.size() == 1 ? blocks_.number(symbols[0]) : std::nullopt;
  if (!number) return false;
  const Predicate sent = predicate.substitute(symbols[0], number->sent);
  return certain(sent) || (sent.relation == Predicate::Relation::NonNegative &&
                           sent.expr == number->sent && never_negative(sent.expr));
}

bool CertainFacts::in_doubt(Symbol symbol) const {
  return std::ranges::any_of(pending_, [&](const Predicate& predicate) {
    const auto symbols = predicate.expr.symbols();
    return std::ranges::find(symbols, symbol) != symbols.end();
  });
}

/// True for a predicate on one received value, if its sender has asserted the same for all values
/// that it sends at that place of a block.
bool CertainFacts::holds_on_the_sender(const Predicate& predicate) const {
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
    if (!certain(predicate.substitute(symbols[0], Expr::symbol(sent[at])))) return false;
  return true;
}

}  // namespace lockstep::worker
