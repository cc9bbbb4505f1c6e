// floor_div and mod. If the written expression has a value, every rule preserves it. For all q and
// r with a == b*q + r, floor(a/b) == q + floor(r/b) and a mod b == r mod b.
#include <numeric>

#include <lockstep/shapes/expr/polynomial.h>
#include <lockstep/shapes/expr/range.h>
#include <lockstep/shapes/expr/wide.h>

namespace lockstep::shapes {
namespace {

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  Wide out = 0;
  static_cast<void>(floor_divide_wide(a, b, out));
  return static_cast<std::int64_t>(out);
}

std::int64_t floor_mod(std::int64_t a, std::int64_t b) {
  Wide out = 0;
  static_cast<void>(modulo_wide(a, b, out));
  return static_cast<std::int64_t>(out);
}

// floor((x // n + c) / m) == floor((x + c*n) / (n*m)) for m >= 1; nullopt if r is not x // n + c,
// or if a number does not fit.
std::optional<Expr> merge_nested(const Expr& r, std::int64_t m) {
  const std::int64_t c = constant_term(r);
  const Expr::Atom* inner = as_atom(r - c, Expr::Op::FloorDiv);
  if (!inner) return std::nullopt;
  try {
    const Expr& n = inner->operands[1];
    return floor_div(inner->operands[0] + c * n, n * m);
  } catch (const OverflowError&) {
    return std::nullopt;
  }
}

// Requires b >= 2.
Expr floor_div_by_number(const Expr& a, std::int64_t b) {
  std::vector<Expr::Term> exact, rest;
  for (const auto& term : a.terms()) {
    const std::int64_t k = floor_divide(term.coefficient, b);
    const std::int64_t left = floor_mod(term.coefficient, b);
    const bool split = left == 0 || term.factors.empty();
    if (split && k != 0) exact.push_back({k, term.factors});
    if (left != 0) rest.push_back({split ? left : term.coefficient, term.factors});
  }
  const Expr q = Expr::of_terms(std::move(exact));
  Expr r = Expr::of_terms(std::move(rest));
  // floor((g*x + c) / (g*b)) == floor((x + floor(c/g)) / b)
  const std::int64_t g = std::gcd(content(r, false), b);
  const std::int64_t c = constant_term(r);
  r = divide_coefficients(r - c, g) + floor_divide(c, g);
  b /= g;
  const Range range = range_of(r);
  const bool bounded = range.lower != Range::kMin && range.upper != Range::kMax;
  if (bounded && floor_divide(range.lower, b) == floor_divide(range.upper, b)) {
    return q + floor_divide(range.lower, b);
  }
  if (const auto merged = merge_nested(r, b)) return q + *merged;
  return q + raw_atom(Expr::Op::FloorDiv, {r, b});
}

// A term k*Mod(x, n) inside "mod b" becomes k*x if b divides k*n.
Expr unwrap_mods(const Expr& a, std::int64_t b) {
  Expr out = a;
  for (const auto& term : a.terms()) {
    const bool single = term.factors.size() == 1 && term.factors[0].power == 1;
    if (!single || term.factors[0].atom->op != Expr::Op::Mod) continue;
    const auto& operands = term.factors[0].atom->operands;
    const auto n = operands[1].constant();
    Wide multiple = 0;
    if (!n || !multiply_wide(term.coefficient, *n, multiple) || multiple % b != 0) continue;
    out = out - Expr::of_terms({term}) + term.coefficient * operands[0];
  }
  return out;
}

Expr reduce_coefficients(const Expr& a, std::int64_t b) {
  std::vector<Expr::Term> terms(a.terms().begin(), a.terms().end());
  for (auto& term : terms) term.coefficient = floor_mod(term.coefficient, b);
  return Expr::of_terms(std::move(terms));
}

// Requires b >= 2.
Expr mod_by_number(const Expr& a, std::int64_t b) {
  Expr r = reduce_coefficients(a, b);
  for (Expr next = reduce_coefficients(unwrap_mods(r, b), b); next != r;) {
    r = next;
    next = reduce_coefficients(unwrap_mods(r, b), b);
  }
  const Range range = range_of(r);
  if (range.lower >= 0 && range.upper < b) return r;
  // (g*x + c) mod (g*b) == g*((x + floor(c/g)) mod b) + c mod g
  const std::int64_t g = std::gcd(content(r, false), b);
  const std::int64_t c = constant_term(r);
  const Expr inner = divide_coefficients(r - c, g) + floor_divide(c, g);
  return g * raw_atom(Expr::Op::Mod, {inner, b / g}) + floor_mod(c, g);
}

// As divide(), but nullopt if the quotient or the remainder has more terms than a, so that repeated
// division does not grow.
std::optional<Division> shorter_division(const Expr& a, const Expr& b) {
  auto out = divide(a, b);
  const std::size_t limit = a.terms().size();
  const bool grows =
      out && (out->quotient.terms().size() > limit || out->remainder.terms().size() > limit);
  return grows ? std::nullopt : out;
}

struct Fraction {
  Expr common, numerator, denominator;
};

// Requires that a and b are not zero. `common` is a positive number times a monomial.
Fraction cancel(const Expr& a, const Expr& b) {
  const std::int64_t g = std::gcd(content(a, true), content(b, true));
  const auto shared = common_monomial(common_monomial(a), common_monomial(b));
  return {monomial_expr(g, shared), divide_coefficients(divide_monomial(a, shared), g),
          divide_coefficients(divide_monomial(b, shared), g)};
}

}  // namespace

Expr floor_div(const Expr& a, const Expr& b) {
  if (b == 0) return raw_atom(Expr::Op::FloorDiv, {a, b});
  if (b.terms()[0].coefficient < 0) return floor_div(-a, -b);
  if (const auto number = b.constant()) {
    return *number == 1 ? a : floor_div_by_number(a, *number);
  }
  const auto division = shorter_division(a, b);
  const Expr q = division ? division->quotient : 0;
  const Expr r = division ? division->remainder : a;
  if (r == 0) return q;
  const Fraction reduced = cancel(r, b);
  if (reduced.common != 1) return q + floor_div(reduced.numerator, reduced.denominator);
  return q + raw_atom(Expr::Op::FloorDiv, {r, b});
}

Expr mod(const Expr& a, const Expr& b) {
  if (b == 0) return raw_atom(Expr::Op::Mod, {a, b});
  if (b.terms()[0].coefficient < 0) return -mod(-a, -b);
  if (const auto number = b.constant()) {
    return *number == 1 ? 0 : mod_by_number(a, *number);
  }
  const auto division = shorter_division(a, b);
  const Expr r = division ? division->remainder : a;
  if (r == 0) return 0;
  const Fraction reduced = cancel(r, b);
  if (reduced.common != 1) {
    return reduced.common * mod(reduced.numerator, reduced.denominator);
  }
  return raw_atom(Expr::Op::Mod, {r, b});
}

}  // namespace lockstep::shapes
