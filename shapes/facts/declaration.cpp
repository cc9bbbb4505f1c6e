#include <algorithm>
#include <optional>
#include <set>

#include <fmt/format.h>

#include <lockstep/shapes/expr/polynomial.h>
#include <lockstep/shapes/facts/declaration.h>
#include <lockstep/shapes/facts/knowledge.h>

namespace lockstep::shapes {
namespace {

using Relation = Predicate::Relation;

// Adds the numbers by which the expression divides.
void add_divisors(const Expr& e, std::set<std::int64_t>& out) {
  for (const auto& term : e.terms()) {
    for (const auto& factor : term.factors) {
      for (const auto& operand : factor.atom->operands) add_divisors(operand, out);
      const bool divides =
          factor.atom->op == Expr::Op::FloorDiv || factor.atom->op == Expr::Op::Mod;
      const auto n = divides ? factor.atom->operands[1].constant() : std::nullopt;
      if (n && *n > 1) out.insert(*n);
    }
  }
}

bool implies(const Predicate& a, const Predicate& b, Symbol symbol, Range range) {
  Knowledge known;
  known.add(symbol, range);
  return known.learn(a) && known.prove(b) == true;
}

// The remainder that the symbol has for exactly those values of its range at which `zero` == 0.
std::optional<ModularSet> remainder_of(const Predicate& zero, Symbol symbol, Range range,
                                       std::int64_t hint) {
  std::set<std::int64_t> divisors;
  add_divisors(zero.expr, divisors);
  if (zero.relation != Relation::Equal || divisors.empty()) return std::nullopt;
  std::vector<ModularSet> candidates;
  Knowledge known;
  known.add(symbol, range);
  const Facts::Known* facts = known.learn(zero) ? known.facts_of(symbol) : nullptr;
  if (facts && facts->residues.modulus > 1) candidates.push_back(facts->residues);
  for (const std::int64_t n : divisors) candidates.push_back(ModularSet::of(hint, n));
  for (const ModularSet& set : candidates) {
    if (set.modulus < 2) continue;
    const Predicate same = equal(mod(Expr::symbol(symbol), set.modulus), set.residue);
    if (implies(zero, same, symbol, range) && implies(same, zero, symbol, range)) return set;
  }
  return std::nullopt;
}

// The expression that equals the symbol if `zero` == 0.
std::optional<Expr> solved_for(Symbol symbol, const Expr& zero) {
  const Expr x = Expr::symbol(symbol);
  for (const Expr& target : {x - zero, x + zero}) {
    const auto holds = target.symbols();
    if (std::find(holds.begin(), holds.end(), symbol) == holds.end()) return target;
  }
  return std::nullopt;
}

// "x.size(0) % 4 == 1"; nullopt: the guard is not equivalent to a remainder.
std::optional<std::string> remainder_text(const Predicate& guard, Symbol symbol, Range range,
                                          std::int64_t hint, const Namer& namer) {
  const bool differs = guard.relation == Relation::NotEqual;
  const auto set = remainder_of(differs ? guard.negated() : guard, symbol, range, hint);
  if (!set) return std::nullopt;
  return fmt::format("{} % {} {} {}", namer(symbol), set->modulus,
                     differs ? "!=" : "==", set->residue);
}

// "y.size(0) == 2*x.size(0)"; nullopt: the guard does not give a size in terms of the others.
std::optional<std::string> solved_text(const Predicate& guard, Symbol preferred,
                                       const Namer& namer) {
  if (guard.relation != Relation::Equal) return std::nullopt;
  auto symbols = guard.expr.symbols();
  symbols.insert(symbols.begin(), preferred);
  for (const Symbol s : symbols) {
    const auto target = solved_for(s, guard.expr);
    if (target) return fmt::format("{} == {}", namer(s), target->text(namer));
  }
  return std::nullopt;
}

}  // namespace

std::string declaration_text(const Predicate& guard, Symbol symbol, Range range, std::int64_t hint,
                             const Namer& namer) {
  try {
    const auto text = guard.expr.symbols().size() == 1
                          ? remainder_text(guard, symbol, range, hint, namer)
                          : solved_text(guard, symbol, namer);
    if (text) return *text;
  } catch (const OverflowError&) {
    // Returns the guard unchanged.
  }
  return guard.text(namer);
}

}  // namespace lockstep::shapes
