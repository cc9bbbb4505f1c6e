#include <algorithm>

#include <lockstep/shapes/expr/evaluation.h>

namespace lockstep::shapes {
namespace {

std::optional<Wide> atom_value(const Expr::Atom& atom, const Valuation& values) {
  if (atom.op == Expr::Op::Symbol) {
    const auto value = values(atom.symbol);
    return value ? std::optional<Wide>(*value) : std::nullopt;
  }
  std::optional<Wide> out = evaluate_wide(atom.operands[0], values);
  for (std::size_t i = 1; out && i < atom.operands.size(); ++i) {
    const auto next = evaluate_wide(atom.operands[i], values);
    if (!next) return std::nullopt;
    Wide value = 0;
    bool fits = true;
    switch (atom.op) {
      case Expr::Op::FloorDiv:
        fits = floor_divide_wide(*out, *next, value);
        break;
      case Expr::Op::Mod:
        fits = modulo_wide(*out, *next, value);
        break;
      case Expr::Op::Min:
        value = std::min(*out, *next);
        break;
      case Expr::Op::Max:
        value = std::max(*out, *next);
        break;
      case Expr::Op::Symbol:
        break;
    }
    if (!fits) return std::nullopt;
    out = value;
  }
  return out;
}

std::optional<Wide> term_value(const Expr::Term& term, const Valuation& values) {
  Wide out = 1;
  for (const auto& factor : term.factors) {
    const auto value = atom_value(*factor.atom, values);
    if (!value) return std::nullopt;
    for (std::uint32_t i = 0; i < factor.power; ++i) {
      if (!multiply_wide(out, *value, out)) return std::nullopt;
    }
  }
  if (!multiply_wide(out, term.coefficient, out)) return std::nullopt;
  return out;
}

}  // namespace

std::optional<Wide> evaluate_wide(const Expr& e, const Valuation& values) {
  Wide out = 0;
  for (const auto& term : e.terms()) {
    const auto value = term_value(term, values);
    if (!value || !add_wide(out, *value, out)) return std::nullopt;
  }
  return out;
}

std::optional<std::int64_t> Expr::evaluate(const Valuation& values) const {
  const auto value = evaluate_wide(*this, values);
  if (!value || !fits_int64(*value)) return std::nullopt;
  return static_cast<std::int64_t>(*value);
}

std::optional<Expr> zero_divisor(const Expr& e, const Valuation& values) {
  for (const auto& term : e.terms()) {
    for (const auto& factor : term.factors) {
      const Expr::Atom& atom = *factor.atom;
      for (const Expr& operand : atom.operands)
        if (auto found = zero_divisor(operand, values)) return found;
      const bool divides = atom.op == Expr::Op::FloorDiv || atom.op == Expr::Op::Mod;
      if (divides && atom.operands[1].evaluate(values) == 0) return atom.operands[1];
    }
  }
  return std::nullopt;
}

}  // namespace lockstep::shapes
