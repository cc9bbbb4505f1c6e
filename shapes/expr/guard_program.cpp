#include <algorithm>
#include <array>
#include <stdexcept>

#include <lockstep/shapes/expr/guard.h>
#include <lockstep/shapes/expr/wide.h>

namespace lockstep::shapes {

// Emits code in the order of evaluate_wide, so that both overflow at the same steps.
class GuardProgram::Compiler {
 public:
  Compiler(GuardProgram& out, const std::vector<Symbol>& slots) : out_(out), slots_(slots) {}

  void guard(const Predicate& predicate) {
    expression(predicate.expr);
    out_.program_.push_back({Code::Test, predicate.relation, 0, 0});
    --depth_;
  }

 private:
  using Instruction = GuardProgram::Instruction;

  void push(Instruction instruction) {
    out_.program_.push_back(instruction);
    out_.depth_ = std::max(out_.depth_, ++depth_);
  }

  void combine(Code code) {
    out_.program_.push_back({code, {}, 0, 0});
    --depth_;
  }

  void expression(const Expr& e) {
    if (e.terms().empty()) push({Code::Push, {}, 0, 0});
    bool first = true;
    for (const auto& t : e.terms()) {
      if (first) {
        term(t);
      } else if (t.factors.empty()) {
        out_.program_.push_back({Code::AddNumber, {}, 0, t.coefficient});
      } else if (is_symbol(t)) {
        out_.program_.push_back(loaded(Code::AddLoaded, *t.factors[0].atom, t.coefficient));
      } else {
        term(t);
        combine(Code::Add);
      }
      first = false;
    }
  }

  static bool is_symbol(const Expr::Term& t) {
    return t.factors.size() == 1 && t.factors[0].power == 1 &&
           t.factors[0].atom->op == Expr::Op::Symbol;
  }

  void term(const Expr::Term& t) {
    if (is_symbol(t)) return push(loaded(Code::Load, *t.factors[0].atom, t.coefficient));
    bool first = true;
    for (const auto& factor : t.factors) {
      for (std::uint32_t i = 0; i < factor.power; ++i) {
        atom(*factor.atom);
        if (!first) combine(Code::Mul);
        first = false;
      }
    }
    if (!first && t.coefficient == 1) return;
    push({Code::Push, {}, 0, t.coefficient});
    if (!first) combine(Code::Mul);
  }

  [[nodiscard]] Instruction loaded(Code code, const Expr::Atom& symbol, std::int64_t times) const {
    const auto slot = std::find(slots_.begin(), slots_.end(), symbol.symbol);
    if (slot == slots_.end()) {
      throw std::logic_error("GuardProgram: no slot for symbol " + symbol.symbol.name());
    }
    return {code, {}, static_cast<std::uint32_t>(slot - slots_.begin()), times};
  }

  void atom(const Expr::Atom& a) {
    if (a.op == Expr::Op::Symbol) return push(loaded(Code::Load, a, 1));
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
  Wide* top = large.empty() ? small.data() : large.data();  // end of the stack without `last`
  Wide last = 0;
  std::size_t guard = 0;
  for (const Instruction& instruction : program_) {
    bool fits = true;
    switch (instruction.code) {
      case Code::Push:
        *top++ = last;
        last = instruction.number;
        break;
      case Code::Load:
        *top++ = last;
        last = Wide{instruction.number} * values[instruction.slot];
        break;
      case Code::AddLoaded:
        fits = add_wide(last, Wide{instruction.number} * values[instruction.slot], last);
        break;
      case Code::AddNumber:
        fits = add_wide(last, instruction.number, last);
        break;
      case Code::Test:
        if (!passes(instruction.relation, last)) return guard;
        last = *--top;
        ++guard;
        break;
      case Code::Add:
        fits = add_wide(*--top, last, last);
        break;
      case Code::Mul:
        fits = multiply_wide(*--top, last, last);
        break;
      case Code::FloorDiv:
        fits = floor_divide_wide(*--top, last, last);
        break;
      case Code::Mod:
        fits = modulo_wide(*--top, last, last);
        break;
      case Code::Min:
        last = std::min(*--top, last);
        break;
      case Code::Max:
        last = std::max(*--top, last);
        break;
    }
    if (!fits) return guard;
  }
  return std::nullopt;
}

}  // namespace lockstep::shapes
