#include <algorithm>
#include <array>
#include <stdexcept>

#include <lockstep/shapes/guard.h>
#include <lockstep/shapes/wide.h>

namespace lockstep::shapes {

// Emits code in the order of evaluate_wide, so that both overflow at the same steps.
class GuardProgram::Compiler {
 public:
  Compiler(GuardProgram& out, const std::vector<Symbol>& slots) : out_(out), slots_(slots) {}

  void guard(const Predicate& predicate) {
    expression(predicate.expr);
    out_.program_.push_back({Code::Test, predicate.relation, 0});
    --depth_;
  }

 private:
  void push(Code code, std::int64_t operand) {
    out_.program_.push_back({code, {}, operand});
    out_.depth_ = std::max(out_.depth_, ++depth_);
  }

  void combine(Code code) {
    out_.program_.push_back({code, {}, 0});
    --depth_;
  }

  void expression(const Expr& e) {
    if (e.terms().empty()) push(Code::Push, 0);
    bool first = true;
    for (const auto& t : e.terms()) {
      term(t);
      if (!first) combine(Code::Add);
      first = false;
    }
  }

  void term(const Expr::Term& t) {
    bool first = true;
    for (const auto& factor : t.factors) {
      for (std::uint32_t i = 0; i < factor.power; ++i) {
        atom(*factor.atom);
        if (!first) combine(Code::Mul);
        first = false;
      }
    }
    if (!first && t.coefficient == 1) return;
    push(Code::Push, t.coefficient);
    if (!first) combine(Code::Mul);
  }

  void atom(const Expr::Atom& a) {
    if (a.op == Expr::Op::Symbol) {
      const auto slot = std::find(slots_.begin(), slots_.end(), a.symbol);
      if (slot == slots_.end()) {
        throw std::logic_error("GuardProgram: no slot for symbol " + a.symbol.name());
      }
      push(Code::Load, slot - slots_.begin());
      return;
    }
    expression(a.operands[0]);
    for (std::size_t i = 1; i < a.operands.size(); ++i) {
      expression(a.operands[i]);
      combine(code_of(a.op));
    }
  }

  static Code code_of(Expr::Op op) {
    switch (op) {
      case Expr::Op::FloorDiv:
        return Code::FloorDiv;
      case Expr::Op::Mod:
        return Code::Mod;
      case Expr::Op::Min:
        return Code::Min;
      case Expr::Op::Max:
        return Code::Max;
      case Expr::Op::Symbol:
        break;
    }
    return Code::Load;
  }

  GuardProgram& out_;
  const std::vector<Symbol>& slots_;
  std::size_t depth_ = 0;
};

GuardProgram GuardProgram::compile(const std::vector<Guard>& guards,
                                   const std::vector<Symbol>& slots) {
  GuardProgram out;
  Compiler compiler(out, slots);
  for (const auto& guard : guards) compiler.guard(guard.predicate);
  return out;
}

namespace {

bool passes(Predicate::Relation relation, Wide value) {
  if (relation == Predicate::Relation::NonNegative) return value >= 0;
  return (value == 0) == (relation == Predicate::Relation::Equal);
}

}  // namespace

std::optional<std::size_t> GuardProgram::first_failure(std::span<const std::int64_t> values) const {
  constexpr std::size_t kSmall = 16;
  std::array<Wide, kSmall> small;
  std::vector<Wide> large;
  if (depth_ > kSmall) large.resize(depth_);
  Wide* top = large.empty() ? small.data() : large.data();  // one past the last value
  std::size_t guard = 0;
  for (const Instruction& instruction : program_) {
    bool fits = true;
    switch (instruction.code) {
      case Code::Push:
        *top++ = instruction.operand;
        continue;
      case Code::Load:
        *top++ = values[static_cast<std::size_t>(instruction.operand)];
        continue;
      case Code::Test:
        --top;
        if (!passes(instruction.relation, *top)) return guard;
        ++guard;
        continue;
      case Code::Add:
        fits = add_wide(top[-2], top[-1], top[-2]);
        break;
      case Code::Mul:
        fits = multiply_wide(top[-2], top[-1], top[-2]);
        break;
      case Code::FloorDiv:
        fits = floor_divide_wide(top[-2], top[-1], top[-2]);
        break;
      case Code::Mod:
        fits = modulo_wide(top[-2], top[-1], top[-2]);
        break;
      case Code::Min:
        top[-2] = std::min(top[-2], top[-1]);
        break;
      case Code::Max:
        top[-2] = std::max(top[-2], top[-1]);
        break;
    }
    if (!fits) return guard;
    --top;
  }
  return std::nullopt;
}

}  // namespace lockstep::shapes
