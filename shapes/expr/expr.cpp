#include <algorithm>

#include <lockstep/shapes/expr/expr.h>
#include <lockstep/shapes/expr/hash_cons.h>
#include <lockstep/shapes/expr/polynomial.h>

namespace lockstep::shapes {
namespace {

// Limits that keep every operation bounded; useful sizes stay far below them.
constexpr std::size_t kMaxProductTerms = 4096;
constexpr std::uint64_t kMaxDegree = 64;

std::int64_t checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (__builtin_add_overflow(a, b, &out)) {
    throw OverflowError("a sum in a size expression does not fit in 64 bits");
  }
  return out;
}

std::int64_t checked_multiply(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out)) {
    throw OverflowError("a product in a size expression does not fit in 64 bits");
  }
  return out;
}

std::vector<Expr::Factor> multiply_monomials(const std::vector<Expr::Factor>& a,
                                             const std::vector<Expr::Factor>& b) {
  std::vector<Expr::Factor> out;
  out.reserve(a.size() + b.size());
  std::uint64_t degree = 0;
  for (std::size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    const auto order = i == a.size()   ? std::strong_ordering::greater
                       : j == b.size() ? std::strong_ordering::less
                                       : compare_atoms(*a[i].atom, *b[j].atom);
    if (order == 0) {
      out.push_back({a[i].atom, a[i].power + b[j].power});
      ++i, ++j;
    } else {
      out.push_back(order < 0 ? a[i++] : b[j++]);
    }
    degree += out.back().power;
  }
  if (degree > kMaxDegree) {
    throw OverflowError("a size expression is a product of more than 64 factors");
  }
  return out;
}

Expr::Term multiply_terms(const Expr::Term& a, const Expr::Term& b) {
  return {checked_multiply(a.coefficient, b.coefficient), multiply_monomials(a.factors, b.factors)};
}

// Merges two sorted lists of terms.
std::vector<Expr::Term> add_terms(std::span<const Expr::Term> a, std::span<const Expr::Term> b,
                                  std::int64_t sign) {
  std::vector<Expr::Term> out;
  out.reserve(a.size() + b.size());
  for (std::size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    const auto order = i == a.size()   ? std::strong_ordering::greater
                       : j == b.size() ? std::strong_ordering::less
                                       : compare_monomials(a[i].factors, b[j].factors);
    if (order < 0) {
      out.push_back(a[i++]);
    } else if (order > 0) {
      out.push_back({checked_multiply(sign, b[j].coefficient), b[j].factors});
      ++j;
    } else {
      std::int64_t c = 0;
      const bool over = sign < 0 ? __builtin_sub_overflow(a[i].coefficient, b[j].coefficient, &c)
                                 : __builtin_add_overflow(a[i].coefficient, b[j].coefficient, &c);
      if (over) throw OverflowError("a sum in a size expression does not fit in 64 bits");
      if (c != 0) out.push_back({c, a[i].factors});
      ++i, ++j;
    }
  }
  return out;
}

void collect_symbols(const Expr& e, std::vector<Symbol>& into) {
  for (const auto& term : e.terms()) {
    for (const auto& factor : term.factors) {
      if (factor.atom->op == Expr::Op::Symbol) into.push_back(factor.atom->symbol);
      for (const auto& operand : factor.atom->operands) collect_symbols(operand, into);
    }
  }
}

Expr replace_in_atom(const std::shared_ptr<const Expr::Atom>& atom,
                     const std::map<Symbol, Expr>& replacements) {
  if (atom->op == Expr::Op::Symbol) {
    const auto found = replacements.find(atom->symbol);
    return found == replacements.end() ? Expr::of_atom(atom) : found->second;
  }
  std::vector<Expr> operands;
  for (const auto& operand : atom->operands) operands.push_back(operand.substitute(replacements));
  if (operands == atom->operands) return Expr::of_atom(atom);
  Expr out = operands[0];
  for (std::size_t i = 1; i < operands.size(); ++i) {
    switch (atom->op) {
      case Expr::Op::FloorDiv:
        out = floor_div(out, operands[i]);
        break;
      case Expr::Op::Mod:
        out = mod(out, operands[i]);
        break;
      case Expr::Op::Min:
        out = min(out, operands[i]);
        break;
      case Expr::Op::Max:
        out = max(out, operands[i]);
        break;
      case Expr::Op::Symbol:
        break;
    }
  }
  return out;
}

}  // namespace

std::string Symbol::name() const { return (unbacked ? "u" : "s") + std::to_string(serial); }

Expr::Expr(std::int64_t constant) {
  if (constant != 0) sum_ = unique_sum({{constant, {}}});
}

Expr Expr::symbol(Symbol symbol) {
  return of_atom(unique_atom({Op::Symbol, symbol, {}, 1, symbol.unbacked}));
}

Expr Expr::of_atom(std::shared_ptr<const Atom> atom) {
  return of_ordered_terms({Term{1, {Factor{std::move(atom), 1}}}});
}

Expr Expr::of_terms(std::vector<Term> terms) {
  std::stable_sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) {
    return compare_monomials(a.factors, b.factors) < 0;
  });
  std::vector<Term> collected;
  for (auto& term : terms) {
    const bool like =
        !collected.empty() && compare_monomials(collected.back().factors, term.factors) == 0;
    if (like) {
      collected.back().coefficient = checked_add(collected.back().coefficient, term.coefficient);
    } else {
      collected.push_back(std::move(term));
    }
  }
  std::erase_if(collected, [](const Term& term) { return term.coefficient == 0; });
  return of_ordered_terms(std::move(collected));
}

Expr of_ordered_terms(std::vector<Expr::Term> terms) {
  Expr out;
  if (!terms.empty()) out.sum_ = unique_sum(std::move(terms));
  return out;
}

std::span<const Expr::Term> Expr::terms() const {
  return sum_ ? std::span<const Term>(sum_->terms) : std::span<const Term>();
}

Expr operator+(const Expr& a, const Expr& b) {
  return of_ordered_terms(add_terms(a.terms(), b.terms(), 1));
}

Expr operator-(const Expr& a, const Expr& b) {
  return of_ordered_terms(add_terms(a.terms(), b.terms(), -1));
}

Expr operator*(const Expr& a, const Expr& b) {
  if (a.terms().size() * b.terms().size() > kMaxProductTerms) {
    throw OverflowError("a size expression grows past 4096 terms");
  }
  std::vector<Expr::Term> terms;
  for (const auto& x : a.terms()) {
    for (const auto& y : b.terms()) terms.push_back(multiply_terms(x, y));
  }
  // The order is a monomial order, so the products of one term with ordered terms are ordered.
  if (a.terms().size() == 1 || b.terms().size() == 1) return of_ordered_terms(std::move(terms));
  return Expr::of_terms(std::move(terms));
}

std::optional<std::int64_t> Expr::constant() const {
  const auto all = terms();
  if (all.empty()) return 0;
  if (all.size() > 1 || !all[0].factors.empty()) return std::nullopt;
  return all[0].coefficient;
}

std::optional<Symbol> Expr::as_symbol() const {
  const Atom* atom = as_atom(*this, Op::Symbol);
  return atom ? std::optional<Symbol>(atom->symbol) : std::nullopt;
}

std::vector<Symbol> Expr::symbols() const {
  std::vector<Symbol> out;
  collect_symbols(*this, out);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

Expr Expr::substitute(Symbol symbol, const Expr& by) const { return substitute({{symbol, by}}); }

Expr Expr::substitute(const std::map<Symbol, Expr>& replacements) const {
  if (replacements.empty()) return *this;
  const auto all = symbols();
  if (std::none_of(all.begin(), all.end(), [&](auto s) { return replacements.contains(s); })) {
    return *this;
  }
  std::vector<Expr> summands;
  for (const auto& term : terms()) {
    Expr product = term.coefficient;
    for (const auto& factor : term.factors) {
      product = product * power(replace_in_atom(factor.atom, replacements), factor.power);
    }
    summands.push_back(product);
  }
  return sum(summands);
}

std::strong_ordering operator<=>(const Expr& a, const Expr& b) {
  if (a.sum_ == b.sum_) return std::strong_ordering::equal;
  return std::lexicographical_compare_three_way(
      a.terms().begin(), a.terms().end(), b.terms().begin(), b.terms().end(),
      [](const Expr::Term& x, const Expr::Term& y) {
        const auto order = compare_monomials(x.factors, y.factors);
        return order != 0 ? order : x.coefficient <=> y.coefficient;
      });
}

Expr ceil_div(const Expr& a, const Expr& b) { return -floor_div(-a, b); }

Expr power(const Expr& base, std::uint32_t exponent) {
  Expr out = 1, square = base;
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1) out = out * square;
    if (exponent > 1) square = square * square;
  }
  return out;
}

Expr product(std::span<const Expr> factors) {
  Expr out = 1;
  for (const auto& factor : factors) out = out * factor;
  return out;
}

Expr sum(std::span<const Expr> terms) {
  std::vector<Expr::Term> all;
  for (const auto& summand : terms) {
    all.insert(all.end(), summand.terms().begin(), summand.terms().end());
  }
  return Expr::of_terms(std::move(all));
}

}  // namespace lockstep::shapes
