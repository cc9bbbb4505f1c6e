// Element by element: one operand, where, cast, and composites of these.
#include <lockstep/worker/trace/op_builder.h>

namespace lockstep::worker {
namespace {

Tensor unary(Op op, const Tensor& x, const Line& where) { return emit(op, {x}, {}, where); }

template <class Plain>
SymFloat float_result(Op op, const SymFloat& a, const FloatOperand& b, Plain plain) {
  if (!a.traced() && !b.value.traced()) return plain(a.value(), b.value.value());
  TensorOperand x(a, b.where), y(b.value, b.where);
  x.weak = y.weak = false;
  return SymFloat(emit(op, aligned(op_row(op).name, {x, y}, b.where), {}, b.where));
}

}  // namespace

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

// A sign alone has no operand that could bring its line.
SymFloat operator-(const SymFloat& x) { return SymFloat(-1.0) * FloatOperand(x, Line()); }
Tensor operator-(const TensorOperand& x) { return neg(x.tensor, x.where); }

Tensor neg(const Tensor& x, Line where) { return unary(Op::Neg, x, where); }
Tensor abs(const Tensor& x, Line where) { return unary(Op::Abs, x, where); }
Tensor exp(const Tensor& x, Line where) { return unary(Op::Exp, x, where); }
Tensor log(const Tensor& x, Line where) { return unary(Op::Log, x, where); }
Tensor sqrt(const Tensor& x, Line where) { return unary(Op::Sqrt, x, where); }
Tensor rsqrt(const Tensor& x, Line where) { return unary(Op::Rsqrt, x, where); }
Tensor tanh(const Tensor& x, Line where) { return unary(Op::Tanh, x, where); }
Tensor sigmoid(const Tensor& x, Line where) { return unary(Op::Sigmoid, x, where); }
Tensor relu(const Tensor& x, Line where) { return unary(Op::Relu, x, where); }

Tensor logical_not(const Tensor& x, Line where) { return unary(Op::Not, x, where); }

Tensor gelu(const Tensor& x, Line where) {
  constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
  const TensorOperand in(x, where);
  const TensorOperand cube(in * (in * in), where);
  const TensorOperand inner(in + cube * TensorOperand(0.044715, where), where);
  const TensorOperand curve(tanh(inner * TensorOperand(kSqrtTwoOverPi, where), where), where);
  return (in * TensorOperand(0.5, where)) * TensorOperand(curve + TensorOperand(1.0, where), where);
}

Tensor silu(const Tensor& x, Line where) {
  return TensorOperand(x, where) * TensorOperand(sigmoid(x, where), where);
}

Tensor where(const Tensor& condition, const TensorOperand& a, const TensorOperand& b) {
  if (a.plain && b.plain)
    refuse(b.where, "where", "give at least one of the two values as a tensor");
  if (condition.empty() || condition.dtype(b.where) != DType::Bool)
    refuse(b.where, "where", "the condition must be a bool tensor; compare first");
  const std::vector<Tensor> values = aligned("where", {a, b}, b.where);
  return emit(Op::Where, broadcast_together("where", {condition, values[0], values[1]}, b.where),
              {}, b.where);
}

Tensor cast(const Tensor& x, DType dtype, Line where) {
  if (x.traced() && x.dtype(where) == dtype) return x;
  Node node;
  node.meta.dtype = dtype;
  return emit(Op::Cast, {x}, std::move(node), where);
}

Tensor detach(const Tensor& x, Line where) {
  const std::shared_ptr<Trace> trace = trace_of("detach", std::vector{x}, where);
  Node node;
  node.meta = meta_of(x);
  Tensor same = emit(Op::Reshape, {x}, std::move(node), where);
  trace->stop_gradient(same.node());
  return same;
}

}  // namespace lockstep::worker
