#include <algorithm>

#include <lockstep/shapes/expr/polynomial.h>
#include <lockstep/shapes/facts/prover.h>
#include <lockstep/shapes/facts/simplifier.h>

namespace lockstep::shapes {
namespace {

constexpr std::size_t kMaxCompared = 8;  // maximum number of operands of Min or Max to compare
constexpr int kMaxPasses = 8;

bool is_polynomial(const Expr& e) {
  for (const auto& term : e.terms()) {
    for (const auto& factor : term.factors) {
      if (factor.atom->op != Expr::Op::Symbol) return false;
    }
  }
  return true;
}

class Simplifier {
 public:
  Simplifier(const Facts& facts, const SymbolRanges& symbols) : facts_(facts), symbols_(symbols) {}

  Expr of(const Expr& e) const {
    std::vector<Expr> summands;
    for (const auto& term : e.terms()) {
      Expr product = term.coefficient;
      for (const auto& factor : term.factors) {
        const Expr value = atom(factor.atom);
        for (std::uint32_t i = 0; i < factor.power; ++i) product = product * value;
      }
      summands.push_back(product);
    }
    return sum(summands);
  }

 private:
  Expr atom(const std::shared_ptr<const Expr::Atom>& atom) const {
    if (atom->op == Expr::Op::Symbol) return Expr::of_atom(atom);
    std::vector<Expr> operands;
    for (const auto& operand : atom->operands) operands.push_back(of(operand));
    const Expr out = combined(atom->op, std::move(operands));
    const Range range = Prover(facts_, symbols_).bounds(out);
    return range.lower == range.upper ? Expr(range.lower) : out;
  }

  Expr combined(Expr::Op op, std::vector<Expr> operands) const {
    const bool division = op == Expr::Op::FloorDiv || op == Expr::Op::Mod;
    if (!division) return extreme(op, std::move(operands));
    const Expr &a = operands[0], &b = operands[1];
    if (within_one_quotient(a, b)) return op == Expr::Op::Mod ? a : 0;
    return divided_apart(op, a, b);
  }

  // Divides a part of `a` separately if its remainder by b is known: the part is a multiple of b
  // plus the remainder.
  [[nodiscard]] Expr divided_apart(Expr::Op op, const Expr& a, const Expr& b) const {
    const std::int64_t c = constant_term(a);
    std::vector<Expr> parts = {a - c};
    if (const auto whole = divided(parts[0], b)) {
      if (c == 0) return op == Expr::Op::Mod ? whole->remainder : whole->quotient;
    } else {
      parts.clear();
      for (const auto& term : a.terms()) {
        if (!term.factors.empty()) parts.push_back(Expr::of_terms({term}));
      }
    }
    Expr quotients, rest = c;
    for (const Expr& part : parts) {
      const auto known = divided(part, b);
      if (known) quotients = quotients + known->quotient;
      rest = rest + (known ? known->remainder : part);
    }
    return op == Expr::Op::Mod ? mod(rest, b) : quotients + floor_div(rest, b);
  }

  // Quotient and remainder with e == b*quotient + remainder; nullopt: no remainder is known.
  [[nodiscard]] std::optional<Division> divided(const Expr& e, const Expr& b) const {
    const auto remainder = b.constant() ? remainder_by(e, *b.constant()) : remainder_by(e, b);
    if (remainder) return Division{floor_div(e, b), *remainder};
    if (b.constant() || e.terms().size() != 1) return std::nullopt;
    for (const auto& factor : e.terms()[0].factors) {
      const Expr atom = Expr::of_atom(factor.atom);
      if (remainder_by(atom, b) != Expr(0)) continue;
      return Division{divide_monomial(e, atom.terms()[0].factors) * floor_div(atom, b), 0};
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<Expr> remainder_by(const Expr& e, std::int64_t n) const {
    if (n < 1) return std::nullopt;
    return Prover(facts_, symbols_).residues(e).remainder(n);
  }

  // The remainder of e by the size b, from facts about Mod(e, b).
  [[nodiscard]] std::optional<Expr> remainder_by(const Expr& e, const Expr& b) const {
    const Range range = facts_.range(mod(e, b));
    return range.lower == range.upper ? std::optional<Expr>(range.lower) : std::nullopt;
  }

  // True if 0 <= a < b. If b is a number, as nearly always, intervals decide, which is cheap.
  [[nodiscard]] bool within_one_quotient(const Expr& a, const Expr& b) const {
    const auto number = b.constant();
    if (!number) return holds(greater_equal(a, 0)) && holds(less(a, b));
    const Range range = Prover(facts_, symbols_).bounds(a);
    return range.lower >= 0 && range.upper < *number;
  }

  Expr extreme(Expr::Op op, std::vector<Expr> operands) const {
    std::vector<Expr> kept;
    for (const auto& operand : operands) {
      const auto beaten_by = [&](const Expr& other) {
        return holds(op == Expr::Op::Max ? less_equal(operand, other) : less_equal(other, operand));
      };
      const auto beats = [&](const Expr& other) {
        return holds(op == Expr::Op::Max ? less_equal(other, operand) : less_equal(operand, other));
      };
      if (operands.size() <= kMaxCompared) {
        if (std::any_of(kept.begin(), kept.end(), beaten_by)) continue;
        std::erase_if(kept, beats);
      }
      kept.push_back(operand);
    }
    Expr out = kept[0];
    for (const auto& operand : kept) {
      out = op == Expr::Op::Max ? max(out, operand) : min(out, operand);
    }
    return out;
  }

  bool holds(const Predicate& predicate) const {
    return Prover(facts_, symbols_).prove(predicate) == true;
  }

  const Facts& facts_;
  const SymbolRanges& symbols_;
};

}  // namespace

Expr simplify_under(const Expr& e, const Facts& facts, const SymbolRanges& symbols) {
  // The result of one pass may match another rule: Mod(s0 + 2, 2) is Mod(s0, 2), and that is s0 if
  // s0 < 2.
  Expr out = e;
  for (int pass = 0; pass < kMaxPasses && !is_polynomial(out); ++pass) {
    Expr next = Simplifier(facts, symbols).of(out);
    if (next == out) break;
    out = std::move(next);
  }
  return out;
}

}  // namespace lockstep::shapes
