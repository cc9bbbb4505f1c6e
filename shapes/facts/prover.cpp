#include <algorithm>

#include <lockstep/shapes/expr/polynomial.h>
#include <lockstep/shapes/expr/sign.h>
#include <lockstep/shapes/facts/prover.h>

namespace lockstep::shapes {
namespace {

constexpr int kDepth = 3;         // maximum nesting of products in factors
constexpr int kMaxQuotients = 4;  // maximum number of quotients resolved in one query
constexpr int kMinMaxDepth = 2;   // nested opaque atoms that are replaced by bounds

using Relation = Predicate::Relation;

// The factor of `term` that is the symbol.
const Expr::Factor* factor_of(const Expr::Term& term, Symbol symbol) {
  for (const auto& factor : term.factors) {
    if (factor.atom->op == Expr::Op::Symbol && factor.atom->symbol == symbol) return &factor;
  }
  return nullptr;
}

// True if the symbol occurs inside an atom, where it is not a variable of the polynomial.
bool inside_atom(const Expr& e, Symbol symbol) {
  for (const auto& term : e.terms()) {
    for (const auto& factor : term.factors) {
      for (const auto& operand : factor.atom->operands) {
        const auto symbols = operand.symbols();
        if (std::binary_search(symbols.begin(), symbols.end(), symbol)) return true;
      }
    }
  }
  return false;
}

// True if the expression is a sum of multiples of atoms.
bool is_linear(const Expr& e) {
  return std::all_of(e.terms().begin(), e.terms().end(), [](const Expr::Term& term) {
    return term.factors.empty() || (term.factors.size() == 1 && term.factors[0].power == 1);
  });
}

// True if the expression contains a Mod. (Remainders of multiples, as in 4*s0 + 1, need no Mod: the
// normal form of predicates decides them.)
bool has_remainder(const Expr& e) {
  const auto is_mod = [](const Expr::Factor& f) { return f.atom->op == Expr::Op::Mod; };
  return std::any_of(e.terms().begin(), e.terms().end(), [&](const Expr::Term& term) {
    return std::any_of(term.factors.begin(), term.factors.end(), is_mod);
  });
}

}  // namespace

bool Prover::spend(const Expr& e) {
  fuel_ -= 1 + static_cast<int>(std::min<std::size_t>(e.terms().size(), kFuel));
  return fuel_ > 0;
}

std::optional<bool> Prover::prove(const Predicate& predicate) {
  if (const auto value = predicate.constant()) return value;
  try {
    // Most questions end here, so the interval alone comes first.
    const Range range = bounds(predicate.expr);
    if (!range.contains(0)) {
      const bool positive = range.lower > 0;
      return predicate.relation == Relation::NonNegative ? positive
                                                         : predicate.relation == Relation::NotEqual;
    }
    if (predicate.relation == Relation::NonNegative && range.lower == 0) return true;
    Signs s = signs(predicate.expr, kDepth);
    auto answer = s.answer(predicate.relation);
    if (!answer) {
      narrow_by_pairs(predicate.expr, s);
      answer = s.answer(predicate.relation);
    }
    if (answer) return answer;
    const Expr expanded = without_mods(predicate.expr);
    if (expanded != predicate.expr) {
      narrow_by_pairs(expanded, s);
      answer = s.answer(predicate.relation);
    }
    const Expr whole = answer ? expanded : without_exact_quotients(expanded);
    if (whole == expanded) return answer;
    if (const auto number = whole.constant())
      s = {*number<0, *number == 0, *number> 0};
    else
      s = signs(whole, kDepth), narrow_by_pairs(whole, s);
    return s.answer(predicate.relation);
  } catch (const OverflowError&) {
    return std::nullopt;
  }
}

std::optional<bool> Prover::Signs::answer(Relation relation) const {
  if (relation == Relation::NonNegative) {
    if (!negative) return true;
    return zero || positive ? std::nullopt : std::optional(false);
  }
  const bool is_equal = relation == Relation::Equal;
  if (!zero) return !is_equal;
  return negative || positive ? std::nullopt : std::optional(is_equal);
}

Prover::Signs Prover::signs(const Expr& e, int depth) {
  Signs out = signs_as_written(e, depth);
  if (out.settled()) return out;
  const Expr expanded = without_mods(e);
  if (expanded == e) return out;
  const Signs other = signs_as_written(expanded, depth);
  return {out.negative && other.negative, out.zero && other.zero, out.positive && other.positive};
}

Prover::Signs Prover::signs_as_written(const Expr& e, int depth) {
  const Range range = bounds(e);
  const bool may_be_zero = range.contains(0) && facts_.may_be_zero(e) && residues(e).contains(0);
  Signs out{range.lower<0, may_be_zero, range.upper> 0};
  if (out.settled() || !spend(e)) return out;
  if (out.negative && never_negative_here(e)) out.negative = false;
  if (out.positive && never_negative_here(-e)) out.positive = false;
  if (out.zero && !out.negative && never_negative_here(e - 1)) out.zero = false;
  if (out.zero && !out.positive && never_negative_here(-e - 1)) out.zero = false;
  if (!out.settled() && depth > 0) narrow_by_factors(e, out, depth);
  return out;
}

void Prover::narrow_by_factors(const Expr& e, Signs& out, int depth) {
  auto factors = monomial_factor(e);
  if (!factors) factors = proportional_factor(e);
  if (!factors) return;
  const Signs a = signs(factors->a, depth - 1), b = signs(factors->b, depth - 1);
  out.negative &= (a.negative && b.positive) || (a.positive && b.negative);
  out.positive &= (a.negative && b.negative) || (a.positive && b.positive);
  out.zero &= a.zero || b.zero;
}

// Factors e as monomial * rest, where neither is a number.
std::optional<Prover::Factors> Prover::monomial_factor(const Expr& e) {
  auto monomial = common_monomial(e);
  if (monomial.empty()) return std::nullopt;
  const Expr rest = divide_monomial(e, monomial);
  if (!rest.constant()) return Factors{monomial_expr(1, std::move(monomial)), rest};
  if (monomial.size() == 1 && monomial[0].power == 1) return std::nullopt;
  // For a single term: the first factor, and the product of the others.
  const std::vector<Expr::Factor> first = {monomial[0]};
  if (monomial.size() == 1) return std::nullopt;  // a power, which bounds() handles
  return Factors{monomial_expr(1, first), divide_monomial(e, first)};
}

// Factors a and x + k of e == a*x + a*k, for a symbol x that occurs only to the first power.
std::optional<Prover::Factors> Prover::proportional_factor(const Expr& e) {
  if (is_linear(e)) return std::nullopt;  // a would be a number
  for (const Symbol symbol : e.symbols()) {
    if (!spend(e)) return std::nullopt;
    if (inside_atom(e, symbol)) continue;
    std::vector<Expr::Term> with, without;
    bool linear = true;
    for (const auto& term : e.terms()) {
      const Expr::Factor* factor = factor_of(term, symbol);
      linear = linear && (!factor || factor->power == 1);
      (factor ? with : without).push_back(term);
    }
    const Expr x = Expr::symbol(symbol);
    if (!linear || with.empty() || without.empty()) continue;
    const Expr a = divide_monomial(Expr::of_terms(std::move(with)), x.terms()[0].factors);
    if (a.constant()) continue;
    const auto k = divide(Expr::of_terms(std::move(without)), a);
    if (k && k->remainder == 0) return Factors{a, x + k->quotient};
  }
  return std::nullopt;
}

Predicate Prover::reduced(const Predicate& predicate) {
  Predicate out = predicate;
  for (int i = 0; i < kDepth; ++i) {
    auto factors = monomial_factor(out.expr);
    if (!factors) factors = proportional_factor(out.expr);
    if (!factors) break;
    Signs a = signs(factors->a, kDepth - 1), b = signs(factors->b, kDepth - 1);
    const auto drops = [&](const Signs& s) {
      return !s.zero && (out.relation != Relation::NonNegative || !s.negative || !s.positive);
    };
    if (!drops(a)) {
      std::swap(a, b);
      std::swap(factors->a, factors->b);
    }
    if (!drops(a)) break;
    const bool turn = out.relation == Relation::NonNegative && a.negative;
    const Expr rest = turn ? -factors->b : factors->b;
    out = out.relation == Relation::Equal      ? equal(rest, 0)
          : out.relation == Relation::NotEqual ? not_equal(rest, 0)
                                               : greater_equal(rest, 0);
  }
  return out;
}

Range Prover::atom_range(const Expr::Factor& factor) {
  // The range of a symbol already includes the facts about the symbol alone.
  if (factor.atom->op == Expr::Op::Symbol) return symbols_(factor.atom->symbol);
  return intersect(range_of(*factor.atom, symbols_), facts_.range(Expr::of_atom(factor.atom)));
}

// The range of the term without its coefficient.
Range Prover::monomial_range(const Expr::Term& term) {
  Range out = Range::of(1);
  for (const auto& factor : term.factors) {
    const Range base = atom_range(factor);
    Range power = Range::of(1);
    for (std::uint32_t i = 0; i < factor.power; ++i) power = power * base;
    if (factor.power % 2 == 0) power = intersect(power, {0, Range::kMax});
    out = out * power;
  }
  const bool is_atom = term.factors.size() == 1 && term.factors[0].power == 1;
  if (term.factors.empty() || is_atom) return out;
  return intersect(out, facts_.range(monomial_expr(1, term.factors)));
}

Range Prover::bounds(const Expr& e) {
  if (!spend(e)) return {};
  Range out = Range::of(0);
  for (const auto& term : e.terms()) {
    out = out + Range::of(term.coefficient) * monomial_range(term);
  }
  return e.terms().empty() ? out : intersect(out, facts_.range(e));
}

ModularSet Prover::residues(const Expr& e) {
  if (!facts_.has_residues() && !has_remainder(e)) return {};
  if (!spend(e)) return {};
  return modular_set_of(e, [this](const Expr& part) { return facts_.residues(part); });
}

std::optional<Expr> Prover::exact_dividend(const Expr::Factor& factor) {
  if (factor.atom->op != Expr::Op::FloorDiv) return std::nullopt;
  const Expr& a = factor.atom->operands[0];
  const auto n = factor.atom->operands[1].constant();
  const auto r = n && *n > 1 ? residues(a).remainder(*n) : std::nullopt;
  return r ? std::optional(a - *r) : std::nullopt;
}

Expr Prover::without_exact_quotients(const Expr& e) {
  Expr out = e;
  for (int taken = 0; taken < kMaxQuotients && spend(out); ++taken) {
    std::vector<Expr::Factor> quotient;
    std::optional<Expr> dividend;
    for (const auto& term : out.terms())
      for (const auto& factor : term.factors)
        if (!dividend && (dividend = exact_dividend(factor))) quotient = {{factor.atom, 1}};
    if (!dividend) break;
    const Expr n = quotient[0].atom->operands[1];
    std::vector<Expr> summands;
    for (const auto& term : out.terms()) {
      const Expr whole = Expr::of_terms({term});
      const bool has = std::any_of(term.factors.begin(), term.factors.end(),
                                   [&](const auto& f) { return f.atom == quotient[0].atom; });
      summands.push_back(has ? divide_monomial(whole, quotient) * *dividend : whole * n);
    }
    out = sum(summands);
  }
  return out;
}

bool Prover::never_negative_here(const Expr& e) {
  if (!spend(e)) return false;
  return bounds(e).lower >= 0 || never_negative(e, symbols_, kMinMaxDepth) ||
         nonnegative_after_shift(e, true) || nonnegative_after_shift(e, false) ||
         never_negative_given_fact(e);
}

// Writes each atom x as lower + t or upper - t with t >= 0. If the result has no negative
// coefficients, the expression is not negative.
bool Prover::nonnegative_after_shift(const Expr& e, bool prefer_lower) {
  if (is_linear(e)) return false;  // its interval gives the same answer
  std::vector<Expr> summands;
  for (const auto& term : e.terms()) {
    Expr product = term.coefficient;
    for (const auto& factor : term.factors) {
      const Range range = atom_range(factor);
      const bool has_lower = range.lower != Range::kMin, has_upper = range.upper != Range::kMax;
      if (!has_lower && !has_upper) return false;
      const Expr t = Expr::of_atom(factor.atom);
      const bool by_lower = has_lower && (prefer_lower || !has_upper);
      const Expr value = by_lower ? t + range.lower : range.upper - t;
      for (std::uint32_t i = 0; i < factor.power; ++i) {
        product = product * value;
        if (!spend(product)) return false;
      }
    }
    summands.push_back(product);
  }
  const Expr shifted = sum(summands);
  return std::all_of(shifted.terms().begin(), shifted.terms().end(),
                     [](const Expr::Term& term) { return term.coefficient >= 0; });
}

}  // namespace lockstep::shapes
