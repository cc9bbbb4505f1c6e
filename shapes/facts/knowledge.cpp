#include <algorithm>
#include <deque>
#include <numeric>

#include <lockstep/shapes/expr/polynomial.h>
#include <lockstep/shapes/expr/wide.h>
#include <lockstep/shapes/facts/knowledge.h>
#include <lockstep/shapes/facts/prover.h>
#include <lockstep/shapes/facts/simplifier.h>

namespace lockstep::shapes {
namespace {

using Relation = Predicate::Relation;

// Limits that count steps, equal on every rank. Past a limit less is learnt.
constexpr int kMaxConsequences = 256;
constexpr int kMaxEndSteps = 64;      // maximum steps of a bound past excluded values
constexpr std::size_t kMaxTerms = 8;  // terms of a fact that narrows ranges or replaces a symbol
constexpr std::size_t kMaxEqualities = 16;  // facts with which an equality is combined

std::int64_t coefficient_of(const Expr& e, const std::vector<Expr::Factor>& monomial) {
  for (const auto& term : e.terms())
    if (compare_monomials(term.factors, monomial) == 0) return term.coefficient;
  return 0;
}

// The range of all x with c*x in r.
Range divided(const Range& r, std::int64_t c) {
  if (c < 0) return c == INT64_MIN ? Range{} : divided(-r, -c);
  Range out;
  Wide quotient = 0;
  if (r.lower != Range::kMin && floor_divide_wide(Wide{r.lower} + c - 1, c, quotient)) {
    out.lower = static_cast<std::int64_t>(quotient);
  }
  if (r.upper != Range::kMax && floor_divide_wide(r.upper, c, quotient)) {
    out.upper = static_cast<std::int64_t>(quotient);
  }
  return out;
}

// True if the expression may replace an unbacked symbol: at most one of its terms has unbacked
// symbols, and this term is a single symbol. Sums of several unbacked symbols stay as the user
// wrote them.
bool may_replace_unbacked(const Expr& target) {
  int unbacked = 0;
  for (const auto& term : target.terms()) {
    const Expr e = Expr::of_terms({term});
    if (!e.has_unbacked()) continue;
    if (++unbacked > 1 || !e.as_symbol()) return false;
  }
  return true;
}

bool is_bound_of_a_symbol(const Predicate& p) {
  return !p.constant() && direction_of(p.expr).direction.as_symbol();
}

// A number, or a multiple of one symbol plus a number.
bool is_linear_in_one(const Expr& e) {
  if (e.constant()) return true;
  return e.terms().size() <= 2 && direction_of(e).direction.as_symbol();
}

}  // namespace

void Knowledge::add(Symbol symbol, Range range) {
  ranges_[symbol] = range;
  if (range.lower == range.upper) replace(symbol, range.lower);
}

SymbolRanges Knowledge::symbol_ranges() const {
  return [this](Symbol symbol) { return range(symbol); };
}

Expr Knowledge::simplify(const Expr& expr) const {
  return simplify_under(expr.substitute(replacements_), facts_, symbol_ranges());
}

Predicate Knowledge::simplify(const Predicate& predicate) const {
  const Expr e = simplify(predicate.expr);
  return e == predicate.expr ? predicate : predicate_of(predicate.relation, e);
}

Predicate Knowledge::reduced(const Predicate& predicate) const {
  const auto ranges = symbol_ranges();
  return Prover(facts_, ranges).reduced(predicate);
}

std::optional<bool> Knowledge::prove(const Predicate& predicate) const {
  try {
    return prove_simplified(simplify(predicate));
  } catch (const OverflowError&) {
    return std::nullopt;
  }
}

std::optional<bool> Knowledge::prove_simplified(const Predicate& predicate) const {
  const auto ranges = symbol_ranges();
  return Prover(facts_, ranges).prove(predicate);
}

Range Knowledge::range(const Expr& expr) const {
  const auto ranges = symbol_ranges();
  return Prover(facts_, ranges).bounds(simplify(expr));
}

std::optional<std::int64_t> Knowledge::number(Symbol symbol) const {
  const auto found = replacements_.find(symbol);
  return found == replacements_.end() ? std::nullopt : found->second.constant();
}

bool Knowledge::learn(const Predicate& fact) { return learn_all({fact}, 0); }

bool Knowledge::learn_open(const Predicate& fact) {
  std::vector<Predicate> consequences;
  try {
    if (!absorb(fact, consequences)) return false;
  } catch (const OverflowError&) {
    return true;  // less is known, but nothing wrong
  }
  return learn_all({consequences.begin(), consequences.end()}, 1);
}

// Learns facts and their consequences in the order in which they arise.
bool Knowledge::learn_all(std::deque<Predicate> open, int taken) {
  for (; !open.empty() && taken < kMaxConsequences; ++taken) {
    const Predicate raw = open.front();
    open.pop_front();
    std::vector<Predicate> consequences;
    try {
      const Predicate next = simplify(raw);
      const auto known = prove_simplified(next);
      if (known == false) return false;
      // A known fact may still say more: an equality may replace a symbol, and a bound may narrow a
      // symbol's range.
      const bool says_more =
          !known || next.relation == Relation::Equal || is_bound_of_a_symbol(next);
      if (!next.constant() && says_more && !absorb(next, consequences)) return false;
    } catch (const OverflowError&) {
      continue;
    }
    open.insert(open.end(), consequences.begin(), consequences.end());
  }
  return true;
}

// Learns one fact, and appends facts that follow to `consequences`. False: no value is left.
bool Knowledge::absorb(const Predicate& fact, std::vector<Predicate>& consequences) {
  const Expr direction = direction_of(fact.expr).direction;
  facts_.add(fact);
  if (const auto symbol = direction.as_symbol()) return narrow(*symbol, consequences);
  if (const Expr::Atom* remainder = as_atom(direction, Expr::Op::Mod)) {
    const auto symbol = remainder->operands[0].as_symbol();
    if (symbol && !narrow(*symbol, consequences)) return false;
  }
  propagate(fact, consequences);
  propagate_into_quotient(direction, consequences);
  if (facts_.range(fact.expr) != Range::of(0)) return true;
  if (!consequences.empty()) {
    consequences.push_back({Relation::Equal, fact.expr});  // learnt again, with narrower ranges
    return true;
  }
  if (fact.expr.terms().size() > kMaxTerms || replace_by(fact.expr, consequences)) return true;
  eliminate(fact.expr, consequences);
  return learn_remainders(fact.expr, consequences);
}

// Narrows the range of a symbol by the facts about the symbol alone; if one value is left, the
// symbol is replaced by it.
bool Knowledge::narrow(Symbol symbol, std::vector<Predicate>& consequences) {
  const Expr e = Expr::symbol(symbol);
  Range range = tightened(intersect(ranges_.at(symbol), facts_.range(e)), facts_.residues(e));
  const auto possible = [&](std::int64_t v) { return facts_.may_be_zero(e - v); };
  for (int i = 0; i < kMaxEndSteps && !range.empty(); ++i) {
    const bool low = range.lower == Range::kMin || possible(range.lower);
    const bool high = range.upper == Range::kMax || possible(range.upper);
    if (low && high) break;
    if (!low) ++range.lower;
    if (!high) --range.upper;
  }
  if (range != ranges_.at(symbol)) changed_.push_back(symbol);
  ranges_[symbol] = range;
  if (range.lower == range.upper) static_cast<void>(replace_by(e - range.lower, consequences));
  return !range.empty();
}

// Solves for each linear symbol: its range follows from the ranges of the other terms.
void Knowledge::propagate(const Predicate& fact, std::vector<Predicate>& consequences) const {
  const Expr& e = fact.expr;
  if (e.terms().size() > kMaxTerms || fact.relation == Relation::NotEqual) return;
  const auto ranges = symbol_ranges();
  const Range whole = facts_.range(e);
  for (const Symbol symbol : e.symbols()) {
    const std::int64_t c = sole_coefficient(e, symbol);
    if (c == 0) continue;
    const Expr rest = e - c * Expr::symbol(symbol);
    const Range found = divided(whole + -Prover(facts_, ranges).bounds(rest), c);
    const Range known = range(symbol);
    if (found.lower > known.lower) {
      consequences.push_back(greater_equal(Expr::symbol(symbol), found.lower));
    }
    if (found.upper < known.upper) {
      consequences.push_back(less_equal(Expr::symbol(symbol), found.upper));
    }
  }
}

// From lower <= x // n <= upper follow the bounds of x: n*lower and n*upper + n - 1.
void Knowledge::propagate_into_quotient(const Expr& direction,
                                        std::vector<Predicate>& consequences) const {
  const Expr::Atom* quotient = as_atom(direction, Expr::Op::FloorDiv);
  const auto n = quotient ? quotient->operands[1].constant() : std::nullopt;
  if (!n || *n < 1) return;
  const Expr& x = quotient->operands[0];
  const auto ranges = symbol_ranges();
  const Range found = Range::of(*n) * facts_.range(direction) + Range{0, *n - 1};
  const Range known = Prover(facts_, ranges).bounds(x);
  if (found.lower > known.lower) consequences.push_back(greater_equal(x, found.lower));
  if (found.upper < known.upper) consequences.push_back(less_equal(x, found.upper));
}

// Given `zero` == 0, learns the remainder of a term by m, if all other terms with symbols are
// multiples of m.
bool Knowledge::learn_remainders(const Expr& zero, std::vector<Predicate>& consequences) {
  const std::int64_t c = constant_term(zero);
  for (const auto& term : zero.terms()) {
    const Expr alone = Expr::of_terms({term});
    const std::int64_t m = content(zero - alone, false);
    if (alone.constant() || m < 2) continue;
    facts_.add_remainder(alone, -(c % m), m);
    const auto symbol = direction_of(alone).direction.as_symbol();
    if (symbol && !narrow(*symbol, consequences)) return false;
  }
  return true;
}

// Given `zero` == 0, eliminates each of its terms by every other equality that has the term. Learns
// the results that have at most two terms besides a constant. (For example, if two sums with the
// same total differ in one part, these parts are equal.)
void Knowledge::eliminate(const Expr& zero, std::vector<Predicate>& consequences) const {
  for (const Expr& direction : facts_.sharing_terms(zero, kMaxEqualities)) {
    const Range known = facts_.of(direction)->range;
    if (known.lower != known.upper || direction.terms().size() > kMaxTerms) continue;
    const Expr other = direction - known.lower;
    for (const auto& term : zero.terms()) {
      const std::int64_t c = coefficient_of(other, term.factors);
      if (c == 0 || term.factors.empty()) continue;
      const std::int64_t g = std::gcd(c, term.coefficient);
      const Expr left = zero * (c / g) - other * (term.coefficient / g);
      const std::size_t constants = constant_term(left) != 0 ? 1 : 0;
      if (left != 0 && left.terms().size() <= 2 + constants) consequences.push_back(equal(left, 0));
    }
  }
}

// The expression that equals the symbol if `zero` == 0; nullopt: no such expression may replace the
// symbol.
std::optional<Expr> Knowledge::target_for(Symbol symbol, const Expr& zero) const {
  const std::int64_t c = sole_coefficient(zero, symbol);
  if (c != 1 && c != -1) return std::nullopt;
  const Expr rest = zero - c * Expr::symbol(symbol);
  const Expr target = c == 1 ? -rest : rest;
  const auto holds = target.symbols();
  if (!symbol.unbacked && target.has_unbacked()) return std::nullopt;
  const bool earlier = holds.empty() || holds.back() < symbol;
  if (symbol.unbacked && (!earlier || !may_replace_unbacked(target))) return std::nullopt;
  if (targets_ == Targets::Linear && !is_linear_in_one(target)) return std::nullopt;
  const auto ranges = symbol_ranges();
  if (!range(symbol).contains(Prover(facts_, ranges).bounds(target))) return std::nullopt;
  return target;
}

// Uses `zero` == 0 to replace a symbol. Tries unbacked before backed symbols, each kind from the
// greatest serial down. False: no symbol can be replaced.
bool Knowledge::replace_by(const Expr& zero, std::vector<Predicate>& consequences) {
  const auto symbols = zero.symbols();
  for (auto it = symbols.rbegin(); it != symbols.rend(); ++it) {
    const auto target = target_for(*it, zero);
    if (!target) continue;
    replace(*it, *target);
    const auto moved = facts_.take(*it);
    consequences.insert(consequences.end(), moved.begin(), moved.end());
    return true;
  }
  return false;
}

void Knowledge::replace(Symbol symbol, const Expr& target) {
  const auto holds = [&](Symbol part, Symbol holder) { held_by_[part].push_back(holder); };
  if (const auto found = held_by_.extract(symbol); !found.empty()) {
    for (const Symbol holder : found.mapped()) {
      Expr& expr = replacements_.at(holder);
      const Expr moved = expr.substitute(symbol, target);
      if (moved == expr) continue;
      expr = moved;
      if (moved.constant()) changed_.push_back(holder);
      for (const Symbol part : target.symbols()) holds(part, holder);
    }
  }
  replacements_[symbol] = target;
  if (target.constant()) changed_.push_back(symbol);
  for (const Symbol part : target.symbols()) holds(part, symbol);
}

}  // namespace lockstep::shapes
