#include <algorithm>
#include <limits>

#include <lockstep/worker/agree/exchange/expr_table.h>

namespace lockstep::worker {

using shapes::Expr;

ExprSlot ExprTable::intern(const Expr& expr) {
  for (std::size_t i = 0; i < entries_.size(); ++i)
    if (entries_[i].expr == expr) return static_cast<ExprSlot>(i);
  const auto begin = static_cast<std::uint32_t>(program_.size());
  compile(expr);
  entries_.push_back({expr, begin, static_cast<std::uint32_t>(program_.size())});
  return static_cast<ExprSlot>(entries_.size() - 1);
}

void ExprTable::compile(const Expr& expr) {
  bool first = true;
  for (const Expr::Term& term : expr.terms()) {
    program_.push_back({Code::Push, term.coefficient});
    for (const Expr::Factor& factor : term.factors)
      for (std::uint32_t p = 0; p < factor.power; ++p) {
        compile(factor);
        program_.push_back({Code::Mul, 0});
      }
    if (!first) program_.push_back({Code::Add, 0});
    first = false;
  }
  if (first) program_.push_back({Code::Push, 0});
}

void ExprTable::compile(const Expr::Factor& factor) {
  const Expr::Atom& atom = *factor.atom;
  if (atom.op == Expr::Op::Symbol) {
    const auto at = std::ranges::find(symbols_, atom.symbol) - symbols_.begin();
    program_.push_back({Code::Load, at});
    return;
  }
  const Code code = atom.op == Expr::Op::FloorDiv ? Code::FloorDiv
                    : atom.op == Expr::Op::Mod    ? Code::Mod
                    : atom.op == Expr::Op::Min    ? Code::Min
                                                  : Code::Max;
  for (std::size_t i = 0; i < atom.operands.size(); ++i) {
    compile(atom.operands[i]);
    if (i > 0) program_.push_back({code, 0});
  }
}

std::optional<std::int64_t> ExprTable::evaluate(ExprSlot slot, std::span<const std::int64_t> values,
                                                std::vector<std::int64_t>& stack) const {
  stack.clear();
  for (std::uint32_t at = entries_[slot].begin; at < entries_[slot].end; ++at) {
    const Instruction& step = program_[at];
    if (step.code == Code::Push || step.code == Code::Load) {
      stack.push_back(step.code == Code::Push ? step.operand
                                              : values[static_cast<std::size_t>(step.operand)]);
      continue;
    }
    const std::int64_t b = stack.back();
    stack.pop_back();
    std::int64_t& a = stack.back();
    const bool divides = step.code == Code::FloorDiv || step.code == Code::Mod;
    if (divides && (b == 0 || (b == -1 && a == std::numeric_limits<std::int64_t>::min())))
      return std::nullopt;
    switch (step.code) {
      case Code::Add:
        if (__builtin_add_overflow(a, b, &a)) return std::nullopt;
        break;
      case Code::Mul:
        if (__builtin_mul_overflow(a, b, &a)) return std::nullopt;
        break;
      case Code::FloorDiv:
        a = a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
        break;
      case Code::Mod:
        a %= b;
        if (a != 0 && (a < 0) != (b < 0)) a += b;
        break;
      case Code::Min:
        a = std::min(a, b);
        break;
      default:
        a = std::max(a, b);
        break;
    }
  }
  return stack.back();
}

}  // namespace lockstep::worker
