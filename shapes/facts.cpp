#include <algorithm>
#include <utility>

#include <lockstep/shapes/facts.h>
#include <lockstep/shapes/polynomial.h>
#include <lockstep/shapes/wide.h>

namespace lockstep::shapes {
namespace {

using Relation = Predicate::Relation;

// Numbers beyond this stand for themselves nowhere in what follows; keeps negation and ±1 in range.
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

// An excluded end moves the bound.
void tighten(Facts::Known& known) {
  while (!known.range.empty() && known.excluded.contains(known.range.lower)) ++known.range.lower;
  while (!known.range.empty() && known.excluded.contains(known.range.upper)) --known.range.upper;
}

// x with k*x == r mod m; requires that k and m have no common factor.
std::int64_t solve_congruence(std::int64_t k, std::int64_t r, std::int64_t m) {
  std::int64_t a = m, b = floor_mod(k, m), s = 0, t = 1;  // a == s*k and b == t*k mod m
  while (b != 0) {
    const std::int64_t q = a / b;
    a = std::exchange(b, a - q * b);
    s = std::exchange(t, s - q * t);
  }
  return floor_mod(Wide{s} * r, m);
}

// Replaces the Mod factors of one term.
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

bool mentions(const Expr& e, Symbol symbol) {
  const auto symbols = e.symbols();
  return std::binary_search(symbols.begin(), symbols.end(), symbol);
}

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
  for (const auto& c : known.congruences)
    out.push_back(equal(mod(direction, c.modulus), c.residue));
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
  std::vector<Expr> summands;
  bool any = false;
  for (const auto& term : e.terms()) {
    const bool found = std::any_of(term.factors.begin(), term.factors.end(), is_mod);
    any = any || found;
    summands.push_back(found ? term_without_mods(term) : Expr::of_terms({term}));
  }
  return any ? sum(summands) : e;
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
  // scale*x + offset relates to zero as x to -offset/scale.
  const std::int64_t floored = floor_divide(-d.offset, d.scale);
  const bool integral = floored * d.scale == -d.offset;
  Known& known = by_direction_[d.direction];
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
      add_congruence(d.direction, floored);
      break;
    case Relation::NotEqual:
      if (integral) known.excluded.insert(floored);
      break;
  }
  tighten(known);
}

// Mod(x, m) == value says what x is modulo m.
void Facts::add_congruence(const Expr& direction, std::int64_t value) {
  const Expr::Atom* atom = as_atom(direction, Expr::Op::Mod);
  const auto m = atom ? atom->operands[1].constant() : std::nullopt;
  if (!m || *m < 2 || !usable(*m)) return;
  const Direction x = direction_of(atom->operands[0]);
  const std::int64_t residue = solve_congruence(x.scale, floor_mod(Wide{value} - x.offset, *m), *m);
  auto& all = by_direction_[x.direction].congruences;
  const auto same = [&](const Congruence& c) { return c.modulus == *m && c.residue == residue; };
  if (std::none_of(all.begin(), all.end(), same)) all.push_back({*m, residue});
}

Range Facts::range(const Expr& e) const {
  if (const auto value = e.constant()) return Range::of(*value);
  const Direction d = direction_of(e);
  const auto found = by_direction_.find(d.direction);
  if (found == by_direction_.end()) return {};
  return Range::of(d.scale) * found->second.range + Range::of(d.offset);
}

bool Facts::may_be_zero(const Expr& e) const {
  if (const auto value = e.constant()) return *value == 0;
  const Direction d = direction_of(e);
  if (!usable(d.scale) || !usable(d.offset)) return true;
  if (d.offset % d.scale != 0) return false;
  const std::int64_t at = -d.offset / d.scale;
  const auto found = by_direction_.find(d.direction);
  if (found == by_direction_.end()) return true;
  const Known& known = found->second;
  const auto fits = [&](const Congruence& c) { return floor_mod(at, c.modulus) == c.residue; };
  return known.range.contains(at) && !known.excluded.contains(at) &&
         std::all_of(known.congruences.begin(), known.congruences.end(), fits);
}

std::optional<std::int64_t> Facts::residue(const Expr& e, std::int64_t m) const {
  if (e.constant() || m < 2) return std::nullopt;
  const Direction d = direction_of(e);
  const auto found = by_direction_.find(d.direction);
  if (found == by_direction_.end()) return std::nullopt;
  for (const auto& c : found->second.congruences) {
    if (Wide{d.scale} * c.modulus % m != 0) continue;
    return floor_mod(Wide{d.scale} * c.residue + d.offset, m);
  }
  return std::nullopt;
}

std::vector<Predicate> Facts::take(Symbol symbol) {
  std::vector<Predicate> out;
  for (auto it = by_direction_.begin(); it != by_direction_.end();) {
    if (!mentions(it->first, symbol)) {
      ++it;
      continue;
    }
    const auto predicates = as_predicates(it->first, it->second);
    out.insert(out.end(), predicates.begin(), predicates.end());
    it = by_direction_.erase(it);
  }
  return out;
}

}  // namespace lockstep::shapes
