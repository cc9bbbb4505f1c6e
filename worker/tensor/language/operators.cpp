#include <cmath>

#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/language/op_builder.h>
#include <lockstep/worker/tensor/language/operators.h>

namespace lockstep::worker {
namespace {

template <class Plain>
SymFloat float_result(Op op, const SymFloat& a, const FloatOperand& b, Plain plain) {
  if (!a.traced() && !b.value.traced()) return plain(a.value(), b.value.value());
  TensorOperand x(a, b.where), y(b.value, b.where);
  x.weak = y.weak = false;
  return SymFloat(emit(op, aligned(op_row(op).name, {x, y}, b.where), {}, b.where));
}

/// The dtype of an f16 or bf16 tensor beside a number in arithmetic: the result is rounded to it,
/// the number is not. nullopt for other operands, and for comparisons, which round the number
/// first. Ops that return one of their operands, such as maximum, round the number if it is their
/// result.
std::optional<DType> low_beside_number(Op op, const TensorOperand& a, const TensorOperand& b) {
  const OpRow& row = op_row(op);
  if (row.is(OpRow::GivesBool) || a.has_dtype() == b.has_dtype()) return std::nullopt;
  const Tensor& x = a.has_dtype() ? a.tensor : b.tensor;
  return is_low(x) ? std::optional(x.dtype()) : std::nullopt;
}

}  // namespace

TensorOperand::TensorOperand(const SymFloat& f, Line line)
    : tensor(f.traced() ? f.tensor() : Tensor()),
      number(f.traced() ? 0 : f.value()),
      plain(!f.traced()),
      fraction(true),
      weak(f.traced()),
      where(line) {}

TensorOperand::TensorOperand(const SymInt& n, Line line) : where(line) {
  const std::optional<std::int64_t> value = n.expr().constant();
  plain = value && std::abs(*value) < (std::int64_t{1} << 53);
  if (plain) number = static_cast<double>(*value);
  if (!plain || n.trace()) count = n;
}

FloatOperand as_float(const CountOperand& n) {
  if (n.value.trace()) n.value.trace()->need_open("an integer", n.where);
  if (const std::optional<std::int64_t> value = n.value.expr().constant())
    return {static_cast<double>(*value), n.where};
  return {SymFloat(cast(scalar(n.value, n.where), DType::F64, n.where)), n.where};
}

Tensor elementwise(Op op, const TensorOperand& a, const TensorOperand& b) {
  if (const std::optional<DType> low = low_beside_number(op, a, b)) {
    TensorOperand x = a, y = b;
    TensorOperand& narrow = a.has_dtype() ? x : y;
    narrow.tensor = widened(narrow.tensor, b.where);
    const auto in_autocast =
        op_row(op).is(OpRow::AutocastF32) ? InAutocast::StayF32 : InAutocast::Narrow;
    return narrowed(elementwise(op, x, y), *low, in_autocast, b.where);
  }
  return emit(op, aligned(op_row(op).name, {a, b}, b.where), {}, b.where);
}

Tensor bitwise(BitOp op, const TensorOperand& a, const TensorOperand& b) {
  const Op of_ints = op == BitOp::And ? Op::BitAnd : op == BitOp::Or ? Op::BitOr : Op::BitXor;
  const Op of_bools = op == BitOp::And ? Op::And : op == BitOp::Or ? Op::Or : Op::Ne;
  const std::vector<Tensor> both = aligned(op_row(of_ints).name, {a, b}, b.where);
  return emit(both[0].dtype(b.where) == DType::Bool ? of_bools : of_ints, both, {}, b.where);
}

SymFloat operator+(const SymFloat& a, const FloatOperand& b) {
  return float_result(Op::Add, a, b, [](double x, double y) { return x + y; });
}
SymFloat operator-(const SymFloat& a, const FloatOperand& b) {
  return float_result(Op::Sub, a, b, [](double x, double y) { return x - y; });
}
SymFloat operator*(const SymFloat& a, const FloatOperand& b) {
  return float_result(Op::Mul, a, b, [](double x, double y) { return x * y; });
}
SymFloat operator/(const SymFloat& a, const FloatOperand& b) {
  return float_result(Op::Div, a, b, [](double x, double y) { return x / y; });
}
SymFloat operator%(const SymFloat& a, const FloatOperand& b) {
  return float_result(Op::Mod, a, b, [](double x, double y) {
    const double rest = std::fmod(x, y);
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
  });
}

// Unary minus has no second operand to carry the line.
SymFloat operator-(const SymFloat& x) { return SymFloat(-1.0) * FloatOperand(x, Line()); }
Tensor operator-(const TensorOperand& x) { return neg(x.tensor, x.where); }

}  // namespace lockstep::worker
