// min and max: flattened, sorted, without operands that another operand always beats.
#include <algorithm>
#include <numeric>

#include <lockstep/shapes/expr/polynomial.h>
#include <lockstep/shapes/expr/sign.h>

namespace lockstep::shapes {
namespace {

using Op = Expr::Op;

constexpr std::size_t kMaxCompared = 64;  // with more operands, only duplicates are dropped
constexpr int kMaxNested = 3;
constexpr std::size_t kMaxPaired = 6;  // with more operands, no pairs are examined
constexpr int kMaxMerges = 8;

// The only atom of a given op in a sum, and the rest of the sum: e == rest + coefficient*atom.
struct Inner {
  const Expr::Atom* atom = nullptr;
  std::int64_t coefficient = 0;
  Expr rest;
};

Inner find_inner(const Expr& e, Op op) {
  Inner found;
  for (const auto& term : e.terms()) {
    const bool single = term.factors.size() == 1 && term.factors[0].power == 1;
    if (!single || term.factors[0].atom->op != op || term.coefficient < 1) continue;
    if (found.atom) return {};
    found = {term.factors[0].atom.get(), term.coefficient, e - Expr::of_terms({term})};
  }
  return found;
}

// rest + k*Max(x, y) is Max(rest + k*x, rest + k*y) for k >= 1.
void flatten(const Expr& e, Op op, std::vector<Expr>& into) {
  const Inner inner = find_inner(e, op);
  if (!inner.atom) {
    into.push_back(e);
    return;
  }
  for (const auto& operand : inner.atom->operands) {
    flatten(inner.rest + inner.coefficient * operand, op, into);
  }
}

// True if it is proven that a >= b (for Max) or a <= b (for Min), so that `b` may be dropped.
bool beats(const Expr& a, const Expr& b, Op op) {
  const auto anything = [](Symbol) { return Range{}; };
  return never_negative(op == Op::Max ? a - b : b - a, anything, kMaxNested);
}

std::vector<Expr> without_beaten(std::vector<Expr> operands, Op op) {
  std::sort(operands.begin(), operands.end());
  operands.erase(std::unique(operands.begin(), operands.end()), operands.end());
  if (operands.size() > kMaxCompared) return operands;
  std::vector<Expr> kept;
  for (const auto& operand : operands) {
    const auto stronger = [&](const Expr& other) { return beats(other, operand, op); };
    if (std::any_of(kept.begin(), kept.end(), stronger)) continue;
    std::erase_if(kept, [&](const Expr& other) { return beats(operand, other, op); });
    kept.push_back(operand);
  }
  return kept;
}

// The terms, except numbers, that all operands have with the same coefficient.
Expr common_terms(const std::vector<Expr>& operands) {
  std::vector<Expr::Term> common(operands[0].terms().begin(), operands[0].terms().end());
  std::erase_if(common, [](const Expr::Term& term) { return term.factors.empty(); });
  for (const auto& operand : operands) {
    std::erase_if(common, [&](const Expr::Term& term) {
      return std::none_of(operand.terms().begin(), operand.terms().end(),
                          [&](const Expr::Term& other) {
                            return other.coefficient == term.coefficient &&
                                   compare_monomials(other.factors, term.factors) == 0;
                          });
    });
  }
  return Expr::of_terms(std::move(common));
}

// Requires two or more operands, none of which beats another.
Expr joined(std::vector<Expr> operands, Op op) {
  const Expr common = common_terms(operands);
  std::int64_t g = 0;
  for (auto& operand : operands) {
    operand = operand - common;
    g = std::gcd(g, content(operand, true));
  }
  for (auto& operand : operands) operand = divide_coefficients(operand, g);
  std::sort(operands.begin(), operands.end());
  return common + g * raw_atom(op, std::move(operands));
}

// Replaces a pair by a simpler expression. For example, the maximum of a - Max(a, b) and b - Max(a,
// b) is 0. True: a pair was replaced.
bool merge_pair(std::vector<Expr>& operands, Op op) {
  for (std::size_t i = 0; i < operands.size(); ++i) {
    for (std::size_t j = i + 1; j < operands.size(); ++j) {
      std::vector<Expr> pair;
      flatten(joined({operands[i], operands[j]}, op), op, pair);
      std::sort(pair.begin(), pair.end());
      if (pair == std::vector<Expr>{operands[i], operands[j]}) continue;
      operands.erase(operands.begin() + static_cast<std::ptrdiff_t>(j));
      operands.erase(operands.begin() + static_cast<std::ptrdiff_t>(i));
      operands.insert(operands.end(), pair.begin(), pair.end());
      return true;
    }
  }
  return false;
}

Expr extreme(const Expr& a, const Expr& b, Op op) {
  std::vector<Expr> operands;
  flatten(a, op, operands);
  flatten(b, op, operands);
  operands = without_beaten(std::move(operands), op);
  for (int i = 0; i < kMaxMerges && operands.size() <= kMaxPaired; ++i) {
    if (!merge_pair(operands, op)) break;
    operands = without_beaten(std::move(operands), op);
  }
  return operands.size() == 1 ? operands[0] : joined(std::move(operands), op);
}

}  // namespace

Expr min(const Expr& a, const Expr& b) { return extreme(a, b, Op::Min); }
Expr max(const Expr& a, const Expr& b) { return extreme(a, b, Op::Max); }

}  // namespace lockstep::shapes
