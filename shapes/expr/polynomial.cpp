#include <algorithm>
#include <numeric>

#include <lockstep/shapes/expr/hash_cons.h>
#include <lockstep/shapes/expr/polynomial.h>

namespace lockstep::shapes {
namespace {

constexpr int kMaxDivisionSteps = 64;
constexpr std::uint32_t kMaxWeight = 50000;

std::uint64_t degree(std::span<const Expr::Factor> monomial) {
  std::uint64_t out = 0;
  for (const auto& factor : monomial) out += factor.power;
  return out;
}

// a / b; nullopt if b does not divide a.
std::optional<std::vector<Expr::Factor>> quotient_of(std::span<const Expr::Factor> a,
                                                     std::span<const Expr::Factor> b) {
  std::vector<Expr::Factor> out;
  std::size_t j = 0;
  for (const auto& factor : a) {
    const bool shared = j < b.size() && factor.atom == b[j].atom;
    if (shared && factor.power < b[j].power) return std::nullopt;
    const std::uint32_t power = shared ? factor.power - b[j].power : factor.power;
    if (power > 0) out.push_back({factor.atom, power});
    if (shared) ++j;
  }
  if (j < b.size()) return std::nullopt;
  return out;
}

}  // namespace

std::strong_ordering compare_atoms(const Expr::Atom& a, const Expr::Atom& b) {
  if (&a == &b) return std::strong_ordering::equal;
  if (const auto order = a.op <=> b.op; order != 0) return order;
  if (a.op == Expr::Op::Symbol) return a.symbol <=> b.symbol;
  return std::lexicographical_compare_three_way(a.operands.begin(), a.operands.end(),
                                                b.operands.begin(), b.operands.end());
}

std::strong_ordering compare_monomials(std::span<const Expr::Factor> a,
                                       std::span<const Expr::Factor> b) {
  if (const auto order = degree(b) <=> degree(a); order != 0) return order;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i].atom != b[i].atom) return compare_atoms(*a[i].atom, *b[i].atom);
    if (const auto order = b[i].power <=> a[i].power; order != 0) return order;
  }
  return a.size() <=> b.size();
}

Expr raw_atom(Expr::Op op, std::vector<Expr> operands) {
  std::uint32_t weight = 1;
  bool unbacked = false;
  for (const auto& operand : operands) {
    unbacked = unbacked || operand.has_unbacked();
    for (const auto& term : operand.terms()) {
      for (const auto& factor : term.factors) weight += factor.atom->weight;
    }
    if (weight > kMaxWeight) throw OverflowError("a size expression nests too much to be of use");
  }
  return Expr::of_atom(unique_atom({op, {}, std::move(operands), weight, unbacked}));
}

const Expr::Atom* as_atom(const Expr& e, Expr::Op op) {
  const auto terms = e.terms();
  if (terms.size() != 1 || terms[0].coefficient != 1) return nullptr;
  const auto& factors = terms[0].factors;
  if (factors.size() != 1 || factors[0].power != 1 || factors[0].atom->op != op) return nullptr;
  return factors[0].atom.get();
}

std::int64_t sole_coefficient(const Expr& e, Symbol symbol) {
  std::int64_t out = 0;
  for (const auto& term : e.terms()) {
    for (const auto& factor : term.factors) {
      const auto inside = Expr::of_atom(factor.atom).symbols();
      if (!std::binary_search(inside.begin(), inside.end(), symbol)) continue;
      const bool alone =
          term.factors.size() == 1 && factor.power == 1 && factor.atom->op == Expr::Op::Symbol;
      if (!alone || out != 0) return 0;
      out = term.coefficient;
    }
  }
  return out;
}

std::int64_t constant_term(const Expr& e) {
  const auto terms = e.terms();
  return !terms.empty() && terms.back().factors.empty() ? terms.back().coefficient : 0;
}

std::int64_t content(const Expr& e, bool with_constant) {
  std::uint64_t out = 0;
  for (const auto& term : e.terms()) {
    if (term.factors.empty() && !with_constant) continue;
    const auto c = static_cast<std::uint64_t>(term.coefficient);
    out = std::gcd(out, term.coefficient < 0 ? 0 - c : c);
  }
  // The gcd is 2^63 only if all numbers are INT64_MIN or 0; then 1 is returned, which is also a
  // common divisor.
  return out > static_cast<std::uint64_t>(INT64_MAX) ? 1 : static_cast<std::int64_t>(out);
}

Expr divide_coefficients(const Expr& e, std::int64_t d) {
  if (d == 1) return e;
  std::vector<Expr::Term> terms(e.terms().begin(), e.terms().end());
  for (auto& term : terms) term.coefficient /= d;
  return of_ordered_terms(std::move(terms));
}

std::vector<Expr::Factor> common_monomial(const std::vector<Expr::Factor>& a,
                                          const std::vector<Expr::Factor>& b) {
  std::vector<Expr::Factor> out;
  for (const auto& factor : a) {
    for (const auto& other : b) {
      if (factor.atom == other.atom) {
        out.push_back({factor.atom, std::min(factor.power, other.power)});
      }
    }
  }
  return out;
}

std::vector<Expr::Factor> common_monomial(const Expr& e) {
  const auto terms = e.terms();
  if (terms.empty()) return {};
  std::vector<Expr::Factor> out = terms[0].factors;
  for (const auto& term : terms.subspan(1)) {
    if (out.empty()) break;
    out = common_monomial(out, term.factors);
  }
  return out;
}

Expr divide_monomial(const Expr& e, std::span<const Expr::Factor> monomial) {
  if (monomial.empty()) return e;
  std::vector<Expr::Term> terms;
  for (const auto& term : e.terms()) {
    terms.push_back({term.coefficient, quotient_of(term.factors, monomial).value()});
  }
  return Expr::of_terms(std::move(terms));
}

Expr monomial_expr(std::int64_t coefficient, std::vector<Expr::Factor> factors) {
  if (coefficient == 0) return 0;
  std::vector<Expr::Term> terms;
  terms.push_back({coefficient, std::move(factors)});
  return of_ordered_terms(std::move(terms));
}

std::optional<Division> divide(const Expr& a, const Expr& b) {
  const Expr::Term& lead = b.terms()[0];
  Expr rest = a;
  std::vector<Expr::Term> quotient;
  try {
    for (int steps = 0; steps <= kMaxDivisionSteps; ++steps) {
      bool reduced = false;
      for (const auto& term : rest.terms()) {
        if (lead.coefficient == -1 ? term.coefficient == INT64_MIN
                                   : term.coefficient % lead.coefficient != 0) {
          continue;
        }
        auto factors = quotient_of(term.factors, lead.factors);
        if (!factors) continue;
        quotient.push_back({term.coefficient / lead.coefficient, std::move(*factors)});
        rest = rest - Expr::of_terms({quotient.back()}) * b;
        reduced = true;
        break;
      }
      if (!reduced) return Division{Expr::of_terms(std::move(quotient)), rest};
    }
  } catch (const OverflowError&) {
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace lockstep::shapes
