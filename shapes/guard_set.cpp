#include <algorithm>
#include <set>

#include <lockstep/shapes/facts/facts.h>
#include <lockstep/shapes/facts/knowledge.h>
#include <lockstep/shapes/guard_set.h>

namespace lockstep::shapes {
namespace {

using Relation = Predicate::Relation;

Knowledge knowledge_of(const std::map<Symbol, Range>& ranges) {
  Knowledge out;
  for (const auto& [symbol, range] : ranges) out.add(symbol, range);
  return out;
}

// True if the known facts exclude a division by zero.
bool always_has_value(const Expr& e, const Knowledge& known) {
  for (const auto& term : e.terms()) {
    for (const auto& factor : term.factors) {
      const Expr::Atom& atom = *factor.atom;
      if (atom.op == Expr::Op::Symbol) continue;
      const bool divides = atom.op == Expr::Op::FloorDiv || atom.op == Expr::Op::Mod;
      if (divides && !atom.operands[1].constant() &&
          known.prove(not_equal(atom.operands[1], 0)) != true)
        return false;
      if (divides && atom.operands[1] == 0) return false;
      for (const auto& operand : atom.operands)
        if (!always_has_value(operand, known)) return false;
    }
  }
  return true;
}

bool implied(const Guard& guard, const Knowledge& known) {
  return known.prove(guard.predicate) == true && always_has_value(guard.predicate.expr, known);
}

// Learns the guard, unless known facts imply it. False: the guard contradicts known facts.
bool learn_unless_implied(const Guard& guard, Knowledge& known, bool& is_implied) {
  try {
    const Predicate p = known.simplify(guard.predicate);
    const auto proven = known.prove_simplified(p);
    is_implied = proven == true && always_has_value(guard.predicate.expr, known);
    return proven != false && (proven || known.learn_open(p));
  } catch (const OverflowError&) {
    is_implied = false;
    return true;
  }
}

// The guards with only the tightest bound of each expression: of all x >= c the one with the
// greatest c, of all x <= c the one with the least.
std::vector<Guard> tightest_bounds(const std::vector<Guard>& guards) {
  struct Bound {
    std::size_t place;
    std::int64_t offset;
  };
  std::map<Expr, Bound> tightest;  // bounds e >= -offset, by e
  std::set<std::size_t> dropped;
  for (std::size_t i = 0; i < guards.size(); ++i) {
    const Predicate& p = guards[i].predicate;
    if (p.relation != Relation::NonNegative) continue;
    // Predicates are normalised: the coefficients have no common factor, so bounds of the same
    // expression on the same side have the same `sense`.
    const Direction d = direction_of(p.expr);
    const Expr sense = d.scale < 0 ? -d.direction : d.direction;
    const auto [found, is_new] = tightest.try_emplace(sense, Bound{i, d.offset});
    if (is_new) continue;
    const bool tighter = d.offset < found->second.offset;
    dropped.insert(tighter ? found->second.place : i);
    if (tighter) found->second = {i, d.offset};
  }
  std::vector<Guard> out;
  for (std::size_t i = 0; i < guards.size(); ++i)
    if (!dropped.contains(i)) out.push_back(guards[i]);
  return out;
}

}  // namespace

std::vector<Guard> minimal_guards(const GuardSet& set) {
  Knowledge known = knowledge_of(set.ranges);
  std::vector<Guard> out;
  for (Guard& guard : tightest_bounds(set.guards)) {
    bool is_implied = false;
    if (!learn_unless_implied(guard, known, is_implied)) return set.guards;  // it admits no sizes
    if (!is_implied) out.push_back(std::move(guard));
  }
  return out;
}

bool covers(const GuardSet& wider, const GuardSet& narrower) {
  Knowledge known = knowledge_of(narrower.ranges);
  for (const Guard& guard : narrower.guards)
    if (!known.learn(guard.predicate)) return true;  // `narrower` admits no sizes
  const auto in_range = [&](const auto& bound) {
    const auto& [symbol, range] = bound;
    return narrower.ranges.contains(symbol) && range.contains(known.range(symbol));
  };
  return std::all_of(wider.ranges.begin(), wider.ranges.end(), in_range) &&
         std::all_of(wider.guards.begin(), wider.guards.end(),
                     [&](const Guard& guard) { return implied(guard, known); });
}

}  // namespace lockstep::shapes
