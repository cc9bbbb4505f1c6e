#include <algorithm>
#include <numeric>
#include <utility>

#include <lockstep/shapes/expr/polynomial.h>
#include <lockstep/shapes/expr/wide.h>
#include <lockstep/shapes/facts/facts.h>

namespace lockstep::shapes {
namespace {

using Relation = Predicate::Relation;

// Larger numbers are not used below, so that negation and adding ±1 stay in range.
constexpr std::int64_t kMost = INT64_MAX / 4;

bool usable(std::int64_t v) { return v > -kMost && v < kMost; }

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  Wide out = 0;
  static_cast<void>(floor_divide_wide(a, b, out));
  return static_cast<std::int64_t>(out);
}

std::int64_t floor_mod(Wide a, std::int64_t b) {
  Wide out = 0;
  static_cast<void>(modulo_wide(a, b, out));
  return static_cast<std::int64_t>(out);
}

// Moves each bound inwards as long as it is not a possible value.
void tighten(Facts::Known& known) {
  Range& range = known.range;
  const std::int64_t n = std::max<std::int64_t>(known.residues.modulus, 1);
  range = tightened(range, known.residues);
  while (!range.empty() && known.excluded.contains(range.lower)) range.lower += n;
  while (!range.empty() && known.excluded.contains(range.upper)) range.upper -= n;
}

// The x with k*x == r mod m. Requires that k and m have no common factor.
std::int64_t solve_congruence(std::int64_t k, std::int64_t r, std::int64_t m) {
  std::int64_t a = m, b = floor_mod(k, m), s = 0, t = 1;  // a == s*k and b == t*k mod m
  while (b != 0) {
    const std::int64_t q = a / b;
    a = std::exchange(b, a - q * b);
    s = std::exchange(t, s - q * t);
  }
  return floor_mod(Wide{s} * r, m);
}

// The term with its Mod factors replaced as in without_mods().
Expr term_without_mods(const Expr::Term& term) {
  Expr out = term.coefficient;
  for (const auto& factor : term.factors) {
    const auto& operands = factor.atom->operands;
    const Expr value = factor.atom->op == Expr::Op::Mod
                           ? operands[0] - operands[1] * floor_div(operands[0], operands[1])
                           : Expr::of_atom(factor.atom);
    for (std::uint32_t i = 0; i < factor.power; ++i) out = out * value;
  }
  return out;
}

Expr monomial_of(const Expr::Term& term) { return monomial_expr(1, term.factors); }

std::vector<Predicate> as_predicates(const Expr& direction, const Facts::Known& known) {
  std::vector<Predicate> out;
  if (known.range.lower == known.range.upper) {
    out.push_back(equal(direction, known.range.lower));
  } else {
    if (known.range.lower != Range::kMin)
      out.push_back(greater_equal(direction, known.range.lower));
    if (known.range.upper != Range::kMax) out.push_back(less_equal(direction, known.range.upper));
  }
  for (const std::int64_t value : known.excluded) out.push_back(not_equal(direction, value));
  if (known.residues.modulus > 1)
    out.push_back(equal(mod(direction, known.residues.modulus), known.residues.residue));
  return out;
}

}  // namespace

Direction direction_of(const Expr& e) {
  const std::int64_t offset = constant_term(e);
  const Expr rest = e - offset;
  const std::int64_t g = content(rest, false);
  const std::int64_t scale = rest.terms()[0].coefficient < 0 ? -g : g;
  return {divide_coefficients(scale < 0 ? -rest : rest, g), scale, offset};
}

Expr without_mods(const Expr& e) {
  const auto is_mod = [](const Expr::Factor& f) { return f.atom->op == Expr::Op::Mod; };
  const auto found = [&](const Expr::Term& term) {
    return std::any_of(term.factors.begin(), term.factors.end(), is_mod);
  };
  if (std::none_of(e.terms().begin(), e.terms().end(), found)) return e;
  std::vector<Expr> summands;
  for (const auto& term : e.terms())
    summands.push_back(found(term) ? term_without_mods(term) : Expr::of_terms({term}));
  return sum(summands);
}

void Facts::add(const Predicate& predicate) {
  add_as_written(predicate);
  const Expr expanded = without_mods(predicate.expr);
  if (expanded != predicate.expr && !expanded.constant()) {
    add_as_written({predicate.relation, expanded});
  }
}

void Facts::add_as_written(const Predicate& predicate) {
  const Direction d = direction_of(predicate.expr);
  if (!usable(d.scale) || !usable(d.offset)) return;
  // The relation of scale*x + offset to zero is that of x to -offset/scale.
  const std::int64_t floored = floor_divide(-d.offset, d.scale);
  const bool integral = floored * d.scale == -d.offset;
  Known& known = at(d.direction);
  switch (predicate.relation) {
    case Relation::NonNegative:
      if (d.scale > 0) {
        known.range.lower = std::max(known.range.lower, integral ? floored : floored + 1);
      } else {
        known.range.upper = std::min(known.range.upper, floored);
      }
      break;
    case Relation::Equal:
      if (!integral) return;
      known.range = intersect(known.range, Range::of(floored));
      if (const Expr::Atom* mod = as_atom(d.direction, Expr::Op::Mod)) {
        // Mod(x, m) == value says what x is modulo m.
        const auto m = mod->operands[1].constant();
        if (m && *m >= 2) add_remainder(mod->operands[0], floored, *m);
      }
      break;
    case Relation::NotEqual:
      if (integral) known.excluded.insert(floored);
      break;
  }
  tighten(known);
}

void Facts::add_remainder(const Expr& e, std::int64_t value, std::int64_t m) {
  if (!usable(m)) return;
  const Direction x = direction_of(e);
  if (std::gcd(x.scale, m) != 1) return;
  const std::int64_t residue = solve_congruence(x.scale, floor_mod(Wide{value} - x.offset, m), m);
  has_residues_ = true;
  Known& known = at(x.direction);
  const auto both = intersect(known.residues, ModularSet::of(residue, m));
  if (both) {
    known.residues = *both;
    tighten(known);
  } else {
    known.range = {1, 0};  // no value has both remainders
  }
}

Range Facts::range(const Expr& e) const {
  if (const auto value = e.constant()) return Range::of(*value);
  const Direction d = direction_of(e);
  const Known* known = of(d.direction);
  return known ? Range::of(d.scale) * known->range + Range::of(d.offset) : Range{};
}

bool Facts::may_be_zero(const Expr& e) const {
  if (const auto value = e.constant()) return *value == 0;
  const Direction d = direction_of(e);
  if (!usable(d.scale) || !usable(d.offset)) return true;
  if (d.offset % d.scale != 0) return false;
  const std::int64_t at = -d.offset / d.scale;
  const Known* known = of(d.direction);
  if (!known) return true;
  return known->range.contains(at) && !known->excluded.contains(at) && known->residues.contains(at);
}

ModularSet Facts::residues(const Expr& e) const {
  if (const auto value = e.constant()) return ModularSet::of(*value);
  const Direction d = direction_of(e);
  const Known* known = of(d.direction);
  if (!known) return {};
  return ModularSet::of(d.scale) * known->residues + ModularSet::of(d.offset);
}

const Facts::Known* Facts::of(const Expr& direction) const {
  const auto found = by_direction_.find(direction);
  return found != by_direction_.end() ? &found->second : nullptr;
}

Facts::Known& Facts::at(const Expr& direction) {
  const auto [entry, is_new] = by_direction_.try_emplace(direction);
  if (is_new) {
    for (const auto& term : direction.terms()) by_monomial_[monomial_of(term)].insert(direction);
    for (const Symbol symbol : direction.symbols()) by_symbol_[symbol].insert(direction);
  }
  return entry->second;
}

void Facts::forget(const Expr& direction) {
  const auto leave = [&](auto& index, const auto& key) {
    const auto found = index.find(key);
    found->second.erase(direction);
    if (found->second.empty()) index.erase(found);
  };
  for (const auto& term : direction.terms()) leave(by_monomial_, monomial_of(term));
  for (const Symbol symbol : direction.symbols()) leave(by_symbol_, symbol);
  by_direction_.erase(direction);
}

std::vector<Expr> Facts::sharing_terms(const Expr& e, std::size_t most) const {
  std::vector<std::pair<std::set<Expr>::const_iterator, std::set<Expr>::const_iterator>> heads;
  for (const auto& term : e.terms()) {
    if (term.factors.empty()) continue;
    const auto found = by_monomial_.find(monomial_of(term));
    if (found != by_monomial_.end()) heads.emplace_back(found->second.begin(), found->second.end());
  }
  std::vector<Expr> out;
  while (out.size() < most) {  // merges ordered sets
    const Expr* least = nullptr;
    for (const auto& [next, end] : heads) {
      if (next != end && (least == nullptr || *next < *least)) least = &*next;
    }
    if (least == nullptr) break;
    out.push_back(*least);
    for (auto& [next, end] : heads) {
      if (next != end && *next == out.back()) ++next;
    }
  }
  return out;
}

std::vector<Predicate> Facts::take(Symbol symbol) {
  std::vector<Predicate> out;
  const auto found = by_symbol_.find(symbol);
  if (found == by_symbol_.end()) return out;
  const std::set<Expr> directions = found->second;
  for (const Expr& direction : directions) {
    const auto predicates = as_predicates(direction, by_direction_.at(direction));
    out.insert(out.end(), predicates.begin(), predicates.end());
    forget(direction);
  }
  return out;
}

}  // namespace lockstep::shapes
