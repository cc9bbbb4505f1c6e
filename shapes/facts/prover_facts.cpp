// Proves e >= 0 from two facts f1, f2 >= 0: m*e == k1*f1 + k2*f2 + rest with m, k1, k2 > 0 and rest
// > -m. f1 eliminates a term of e that has no bound, and f2 a term of the result.
#include <algorithm>
#include <optional>
#include <utility>

#include <lockstep/shapes/expr/polynomial.h>
#include <lockstep/shapes/expr/wide.h>
#include <lockstep/shapes/facts/prover.h>

namespace lockstep::shapes {
namespace {

constexpr std::size_t kMaxFacts = 64;       // maximum number of facts that share a term with e
constexpr std::size_t kMaxDirections = 32;  // maximum number of directions with a given term
constexpr int kMaxPairs = 64;
constexpr Wide kMostFactor = Wide{1} << 31;  // so that products with coefficients fit

// The coefficient of the monomial; zero also if it is too large.
Wide coefficient_in(const Expr& e, const Expr::Term& monomial) {
  for (const auto& term : e.terms()) {
    if (compare_monomials(term.factors, monomial.factors) != 0) continue;
    return magnitude(term.coefficient) < kMostFactor ? term.coefficient : 0;
  }
  return 0;
}

// Whether k*x, with x in d, is bounded from below.
bool is_bounded(Wide k, const Range& d) {
  return k == 0 || (k > 0 ? d.lower != Range::kMin : d.upper != Range::kMax);
}

// The factors m, k1 and k2 of e, d1 and d2.
struct Weights {
  Wide m = 1, k1 = 0, k2 = 0;
};

// Divides the factors by their common divisor and makes m positive. False: m is zero, or a factor
// is too large.
bool reduce(Weights& w) {
  if (w.m == 0) return false;
  Wide a = magnitude(w.m);
  for (const Wide k : {w.k1, w.k2}) {
    for (Wide b = magnitude(k); b != 0;) a = std::exchange(b, a % b);
  }
  if (w.m < 0) a = -a;
  w = {w.m / a, w.k1 / a, w.k2 / a};
  return w.m < kMostFactor && magnitude(w.k1) < kMostFactor && magnitude(w.k2) < kMostFactor;
}

}  // namespace

// The sum m*e - k1*(d1 - bound1) - k2*(d2 - bound2), term by term.
class Prover::Combination {
 public:
  Combination(Wide m, const Expr& e) : m_(m) { add(m, e); }

  // The least value of the sum that proves e >= 0: e is a whole number, so m*e > -m means e >= 0.
  [[nodiscard]] Wide least() const { return 1 - m_; }

  void subtract(Wide k, const Expr& d, const Range& known) {
    if (k == 0) return;
    constant_ += k * (k > 0 ? known.lower : known.upper);
    add(-k, d);
  }

  struct Part {
    const Expr::Term* monomial;
    Wide coefficient;
  };
  [[nodiscard]] const std::vector<Part>& parts() const { return parts_; }
  [[nodiscard]] Wide constant() const { return constant_; }
  [[nodiscard]] bool has_products() const {
    return std::any_of(parts_.begin(), parts_.end(), [](const Part& part) {
      const auto& factors = part.monomial->factors;
      return factors.size() > 1 || factors[0].power > 1;
    });
  }
  // The sum as an expression; nullopt: a coefficient does not fit.
  [[nodiscard]] std::optional<Expr> expr() const {
    std::vector<Expr::Term> terms;
    for (const auto& [monomial, coefficient] : parts_) {
      if (!fits_int64(coefficient)) return std::nullopt;
      terms.push_back({static_cast<std::int64_t>(coefficient), monomial->factors});
    }
    if (!fits_int64(constant_)) return std::nullopt;
    if (constant_ != 0) terms.push_back({static_cast<std::int64_t>(constant_), {}});
    return of_ordered_terms(std::move(terms));
  }

 private:
  // Adds k*e. Parts stay in canonical order, which is that of terms.
  void add(Wide k, const Expr& e) {
    std::vector<Part> out;
    out.reserve(parts_.size() + e.terms().size());
    auto mine = parts_.begin();
    for (const auto& term : e.terms()) {
      if (term.factors.empty()) {
        constant_ += k * term.coefficient;
        continue;
      }
      auto order = std::strong_ordering::greater;
      for (; mine != parts_.end(); out.push_back(*mine++)) {
        order = compare_monomials(mine->monomial->factors, term.factors);
        if (order >= 0) break;
      }
      Wide coefficient = k * term.coefficient;
      if (mine != parts_.end() && order == 0) coefficient += mine++->coefficient;
      if (coefficient != 0) out.push_back({&term, coefficient});
    }
    out.insert(out.end(), mine, parts_.end());
    parts_ = std::move(out);
  }

  Wide m_ = 1;
  std::vector<Part> parts_;
  Wide constant_ = 0;
};

void Prover::narrow_by_pairs(const Expr& e, Signs& out) {
  if (out.negative && never_negative_given_two(e)) out.negative = false;
  if (out.positive && never_negative_given_two(-e)) out.positive = false;
  if (out.zero && !out.negative && never_negative_given_two(e - 1)) out.zero = false;
  if (out.zero && !out.positive && never_negative_given_two(-e - 1)) out.zero = false;
}

Prover::LeastValue Prover::outlook(const Combination& sum) {
  LeastValue out;
  Wide least = sum.constant();
  bool fits = true;
  for (const auto& [monomial, coefficient] : sum.parts()) {
    const Range range = monomial_range(*monomial);
    const std::int64_t end = coefficient > 0 ? range.lower : range.upper;
    if (end == (coefficient > 0 ? Range::kMin : Range::kMax)) return {false, {monomial}};
    if (range.lower != range.upper) out.blocking_terms.push_back(monomial);
    Wide product = 0;
    fits = fits && multiply_wide(coefficient, end, product) && add_wide(least, product, least);
  }
  out.never_negative = fits && least >= sum.least();
  return out;
}

std::vector<Expr> Prover::directions_with(const Expr::Term& monomial) const {
  return facts_.sharing_terms(monomial_expr(1, monomial.factors), kMaxDirections);
}

bool Prover::never_negative_given_fact(const Expr& e) {
  for (const Expr& d : facts_.sharing_terms(e, kMaxFacts)) {
    const Range& known = facts_.of(d)->range;
    if (known == Range{}) continue;
    if (!spend(e)) return false;
    for (const auto& t : d.terms()) {
      Weights w{t.coefficient, coefficient_in(e, t), 0};
      if (w.k1 == 0 || !reduce(w) || !is_bounded(w.k1, known)) continue;
      Combination rest(w.m, e);
      rest.subtract(w.k1, d, known);
      if (outlook(rest).never_negative) return true;
      // For a sum without products the bounds of the terms give the same answer.
      const auto shifted = rest.has_products() ? rest.expr() : std::nullopt;
      if (shifted && nonnegative_after_shift(*shifted, true)) return true;
    }
  }
  return false;
}

bool Prover::never_negative_given_two(const Expr& e) {
  int pairs = kMaxPairs;
  for (const Expr::Term* t : outlook(Combination(1, e)).blocking_terms) {
    for (const Expr& d : directions_with(*t)) {
      if (never_negative_given_two(e, *t, d, pairs)) return true;
      if (pairs <= 0 || !spend(e)) return false;
    }
  }
  return false;
}

// Proves e >= 0 with two facts, of which the one about d eliminates the term t of e.
bool Prover::never_negative_given_two(const Expr& e, const Expr::Term& t, const Expr& d,
                                      int& pairs) {
  const Range& known = facts_.of(d)->range;
  if (known == Range{}) return false;
  const Wide e_t = coefficient_in(e, t), d_t = coefficient_in(d, t);
  Weights one{d_t, e_t, 0};
  if (!reduce(one)) return false;
  Combination without_t(one.m, e);
  without_t.subtract(one.k1, d, known);
  const LeastValue rest = outlook(without_t);
  if (rest.never_negative && is_bounded(one.k1, known)) return true;
  for (const Expr::Term* u : rest.blocking_terms) {
    const Wide e_u = coefficient_in(e, *u), d_u = coefficient_in(d, *u);
    for (const Expr& other : directions_with(*u)) {
      if (other == d) continue;
      if (pairs-- <= 0 || !spend(e)) return false;
      // The weights must make both terms vanish: m*e == k1*d + k2*other in t and in u.
      const Wide o_t = coefficient_in(other, t), o_u = coefficient_in(other, *u);
      Weights two{d_t * o_u - d_u * o_t, e_t * o_u - e_u * o_t, d_t * e_u - d_u * e_t};
      const Range& known_too = facts_.of(other)->range;
      if (!reduce(two) || !is_bounded(two.k1, known) || !is_bounded(two.k2, known_too)) continue;
      Combination both(two.m, e);
      both.subtract(two.k1, d, known);
      both.subtract(two.k2, other, known_too);
      if (outlook(both).never_negative) return true;
    }
  }
  return false;
}

}  // namespace lockstep::shapes
