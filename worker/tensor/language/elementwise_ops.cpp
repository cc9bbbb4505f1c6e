// Elementwise ops: one operand, where, cast, and composites of these.
#include <cmath>
#include <limits>

#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/language/op_builder.h>

namespace lockstep::worker {
namespace {

/// Casts ints and bools to f32 for a function of floats.
Tensor unary(Op op, const Tensor& x, const Line& where) {
  (void)trace_of(op_row(op).name, std::vector{x}, where);
  const bool to_float = op_row(op).takes == Takes::Float && !is_float(x.dtype(where));
  return emit(op, {to_float ? cast(x, DType::F32, where) : x}, {}, where);
}

/// Ints are returned as they are.
Tensor rounded(Op op, const Tensor& x, const Line& where) {
  (void)trace_of(op_row(op).name, std::vector{x}, where);
  return is_float(x.dtype(where)) ? unary(op, x, where) : x;
}

void need_float(std::string_view what, const Tensor& x, const Line& where) {
  (void)trace_of(what, std::vector{x}, where);
  if (!is_float(x.dtype(where))) refuse(where, what, "takes floating-point numbers; cast first");
}

/// The largest finite value.
double largest_of(DType dtype) {
  if (dtype == DType::F64) return std::numeric_limits<double>::max();
  if (dtype == DType::BF16) return 0x1.fep127;
  return dtype == DType::F16 ? 65504 : static_cast<double>(std::numeric_limits<float>::max());
}

Tensor filled_like(const Tensor& x, DType dtype, double value, const Line& where) {
  return filled(*x.trace(), {dtype, meta_of(x).sizes}, value, where);
}

/// The op `of_bools` for bools, `of_numbers` for numbers.
Tensor extremum(Op of_bools, Op of_numbers, const TensorOperand& a, const TensorOperand& b) {
  const std::vector<Tensor> both = aligned(op_row(of_numbers).name, {a, b}, b.where);
  return emit(both[0].dtype(b.where) == DType::Bool ? of_bools : of_numbers, both, {}, b.where);
}

/// The minimum or maximum (`op`) of x and a bound. If the bound is no tensor, x has a gradient only
/// where it is strictly inside the bound, and none where it is not a number.
Tensor bounded(std::string_view what, Op op, Op inside, const Tensor& x,
               const TensorOperand& bound) {
  const TensorOperand in(x, bound.where);
  (void)trace_of(what, std::vector{x}, bound.where);
  if (bound.plain && !bound.fraction)
    need_value(what, x.dtype(bound.where), bound.number, bound.where);
  const Tensor cut = elementwise(op, in, bound);
  if (bound.has_dtype() || !is_float(x.dtype(bound.where))) return cut;
  return where(elementwise(inside, in, bound), in,
               TensorOperand(detach(cut, bound.where), bound.where));
}

/// `x` to a power that is a plain number, by cheaper ops than pow; empty if this power has none.
Tensor plain_power(const Tensor& x, double power, const Line& where) {
  const TensorOperand in(x, where);
  const bool fraction = is_float(x.dtype(where));
  if (power < 0 && !fraction)
    refuse(where, "pow", "ints have no negative powers; cast() the tensor");
  if (power == 0) return filled_like(x, x.dtype(where), 1, where);
  if (power == 1) return x;
  if (power == 2) return in * in;
  if (power == 3) return in * TensorOperand(in * in, where);
  if (power == 0.5) return sqrt(x, where);
  if (power == -0.5) return rsqrt(x, where);
  if (power == -1) return TensorOperand(1, where) / in;
  return {};
}

}  // namespace

Tensor neg(const Tensor& x, Line where) { return unary(Op::Neg, x, where); }
Tensor abs(const Tensor& x, Line where) { return unary(Op::Abs, x, where); }
Tensor exp(const Tensor& x, Line where) { return unary(Op::Exp, x, where); }
Tensor log(const Tensor& x, Line where) { return unary(Op::Log, x, where); }
Tensor sqrt(const Tensor& x, Line where) { return unary(Op::Sqrt, x, where); }
Tensor rsqrt(const Tensor& x, Line where) { return unary(Op::Rsqrt, x, where); }
Tensor tanh(const Tensor& x, Line where) { return unary(Op::Tanh, x, where); }
Tensor sigmoid(const Tensor& x, Line where) {
  const NamedCall call("sigmoid");
  return unary(Op::Sigmoid, x, where);
}
Tensor relu(const Tensor& x, Line where) { return unary(Op::Relu, x, where); }
Tensor exp2(const Tensor& x, Line where) { return unary(Op::Exp2, x, where); }
Tensor log2(const Tensor& x, Line where) { return unary(Op::Log2, x, where); }
Tensor log1p(const Tensor& x, Line where) { return unary(Op::Log1p, x, where); }
Tensor expm1(const Tensor& x, Line where) { return unary(Op::Expm1, x, where); }
Tensor sin(const Tensor& x, Line where) { return unary(Op::Sin, x, where); }
Tensor cos(const Tensor& x, Line where) { return unary(Op::Cos, x, where); }
Tensor tan(const Tensor& x, Line where) { return unary(Op::Tan, x, where); }
Tensor erf(const Tensor& x, Line where) { return unary(Op::Erf, x, where); }
Tensor floor(const Tensor& x, Line where) { return rounded(Op::Floor, x, where); }
Tensor ceil(const Tensor& x, Line where) { return rounded(Op::Ceil, x, where); }
Tensor round(const Tensor& x, Line where) { return rounded(Op::Round, x, where); }
Tensor trunc(const Tensor& x, Line where) { return rounded(Op::Trunc, x, where); }

Tensor round(const Tensor& x, std::int64_t decimals, Line where) {
  need_float("round", x, where);
  if (decimals == 0) return round(x, where);
  if (is_low(x)) return cast(round(widened(x, where), decimals, where), x.dtype(where), where);
  const TensorOperand in(x, where);
  const TensorOperand power(std::pow(10.0, static_cast<double>(std::abs(decimals))), where);
  const TensorOperand whole(round(decimals > 0 ? in * power : in / power, where), where);
  return decimals > 0 ? whole / power : whole * power;
}

Tensor sign(const Tensor& x, Line where) {
  (void)trace_of("sign", std::vector{x}, where);
  if (x.dtype(where) == DType::Bool) return x;
  const TensorOperand in(x, where), none(0, where), one(1, where);
  const Tensor zero = filled_like(x, x.dtype(where), 0, where);
  const TensorOperand upper(lockstep::worker::where(in > none, one, {zero, where}), where);
  if (x.dtype(where) == DType::U8) return upper.tensor;
  return lockstep::worker::where(in < none, TensorOperand(-1, where), upper);
}

Tensor logical_not(const Tensor& x, Line where) { return unary(Op::Not, x, where); }

Tensor gelu(const Tensor& x, Line where) {
  const NamedCall call("gelu");
  if (is_low(x)) return cast(gelu(widened(x, where), where), x.dtype(), where);
  constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
  const TensorOperand in(x, where);
  const TensorOperand cube(in * (in * in), where);
  const TensorOperand inner(in + cube * TensorOperand(0.044715, where), where);
  const TensorOperand curve(tanh(inner * TensorOperand(kSqrtTwoOverPi, where), where), where);
  return (in * TensorOperand(0.5, where)) * TensorOperand(curve + TensorOperand(1.0, where), where);
}

Tensor silu(const Tensor& x, Line where) {
  const NamedCall call("silu");
  if (is_low(x)) return cast(silu(widened(x, where), where), x.dtype(), where);
  return TensorOperand(x, where) * TensorOperand(sigmoid(x, where), where);
}

Tensor gelu_exact(const Tensor& x, Line where) {
  const NamedCall call("gelu_exact");
  if (is_low(x)) return cast(gelu_exact(widened(x, where), where), x.dtype(), where);
  constexpr double kRootOfHalf = 0.70710678118654752440;
  const TensorOperand in(x, where);
  const TensorOperand curve(erf(in * TensorOperand(kRootOfHalf, where), where), where);
  return (in * TensorOperand(0.5, where)) * TensorOperand(curve + TensorOperand(1.0, where), where);
}

// In the functions below, the branch not taken gets a harmless operand: 0 times an infinite
// gradient would be not-a-number.

Tensor softplus(const Tensor& x, double beta, double threshold, Line where) {
  const NamedCall call("softplus");
  need_float("softplus", x, where);
  if (is_low(x))
    return narrowed(softplus(widened(x, where), beta, threshold, where), x.dtype(),
                    InAutocast::StayF32, where);
  const TensorOperand in(x, where), by(beta, where);
  const TensorOperand scaled(beta == 1 ? x : in * by, where);
  const Tensor linear = scaled > TensorOperand(threshold, where);
  const Tensor safe = lockstep::worker::where(linear, TensorOperand(0.0, where), scaled);
  const TensorOperand curve(log1p(exp(safe, where), where), where);
  return lockstep::worker::where(linear, in, beta == 1 ? curve : TensorOperand(curve / by, where));
}

Tensor leaky_relu(const Tensor& x, double slope, Line where) {
  const NamedCall call("leaky_relu");
  need_float("leaky_relu", x, where);
  const TensorOperand in(x, where);
  return lockstep::worker::where(in > TensorOperand(0.0, where), in,
                                 {in * TensorOperand(slope, where), where});
}

Tensor elu(const Tensor& x, double alpha, Line where) {
  const NamedCall call("elu");
  need_float("elu", x, where);
  if (is_low(x)) return cast(elu(widened(x, where), alpha, where), x.dtype(), where);
  const TensorOperand in(x, where), none(0.0, where);
  const Tensor below = in <= none;
  const TensorOperand curve(expm1(lockstep::worker::where(below, in, none), where), where);
  return lockstep::worker::where(below, {curve * TensorOperand(alpha, where), where}, in);
}

Tensor atan2(const TensorOperand& a, const TensorOperand& b) {
  std::vector<Tensor> both = aligned("atan2", {a, b}, b.where);
  if (!is_float(both[0].dtype(b.where)))
    for (Tensor& x : both) x = cast(x, DType::F32, b.where);
  return emit(Op::Atan2, both, {}, b.where);
}

Tensor pow(const TensorOperand& a, const TensorOperand& b) {
  if (is_low(a.tensor) && b.plain)
    return narrowed(pow({widened(a.tensor, b.where), a.where}, b), a.tensor.dtype(),
                    InAutocast::StayF32, b.where);
  if (a.has_dtype() && b.plain) {
    (void)trace_of("pow", std::vector{a.tensor}, b.where);
    if (b.fraction && !is_float(a.tensor.dtype(b.where)))
      refuse(b.where, "pow", "a fraction as the power of ints; cast() the tensor");
    if (Tensor known = plain_power(a.tensor, b.number, b.where); !known.empty()) return known;
  }
  return elementwise(Op::Pow, a, b);
}

Tensor remainder(const TensorOperand& a, const TensorOperand& b) {
  const NamedCall call("remainder");
  return a % b;
}
Tensor fmod(const TensorOperand& a, const TensorOperand& b) { return elementwise(Op::Fmod, a, b); }
Tensor floor_divide(const TensorOperand& a, const TensorOperand& b) {
  const std::vector<Tensor> both = aligned("floor_divide", {a, b}, b.where);
  return emit(is_float(both[0].dtype(b.where)) ? Op::FloorDivide : Op::Div, both, {}, b.where);
}
Tensor maximum(const TensorOperand& a, const TensorOperand& b) {
  return extremum(Op::Or, Op::Maximum, a, b);
}
Tensor minimum(const TensorOperand& a, const TensorOperand& b) {
  return extremum(Op::And, Op::Minimum, a, b);
}

Tensor clamp(const Tensor& x, const TensorOperand& low, const TensorOperand& high) {
  const NamedCall call("clamp");
  return bounded("clamp", Op::Minimum, Op::Lt, bounded("clamp", Op::Maximum, Op::Gt, x, low), high);
}
Tensor clamp_min(const Tensor& x, const TensorOperand& low) {
  const NamedCall call("clamp_min");
  return bounded("clamp_min", Op::Maximum, Op::Gt, x, low);
}
Tensor clamp_max(const Tensor& x, const TensorOperand& high) {
  const NamedCall call("clamp_max");
  return bounded("clamp_max", Op::Minimum, Op::Lt, x, high);
}

Tensor isnan(const Tensor& x, Line where) {
  return TensorOperand(x, where) != TensorOperand(x, where);
}
Tensor isinf(const Tensor& x, Line where) {
  (void)trace_of("isinf", std::vector{x}, where);
  if (!is_float(x.dtype(where))) return filled_like(x, DType::Bool, 0, where);
  return TensorOperand(abs(x, where), where) == TensorOperand(INFINITY, where);
}
Tensor isfinite(const Tensor& x, Line where) {
  (void)trace_of("isfinite", std::vector{x}, where);
  if (!is_float(x.dtype(where))) return filled_like(x, DType::Bool, 1, where);
  return TensorOperand(abs(x, where), where) < TensorOperand(INFINITY, where);
}

Tensor nan_to_num(const Tensor& x, double nan, std::optional<double> posinf,
                  std::optional<double> neginf, Line where) {
  (void)trace_of("nan_to_num", std::vector{x}, where);
  const DType dtype = x.dtype(where);
  if (!is_float(dtype)) return x;
  const double largest = largest_of(dtype);
  const TensorOperand in(x, where), above(INFINITY, where), below(-INFINITY, where);
  const auto replaced = [&](const Tensor& these, double by, const TensorOperand& rest) {
    return TensorOperand(lockstep::worker::where(these, TensorOperand(by, where), rest), where);
  };
  const TensorOperand lower = replaced(in == below, neginf.value_or(-largest), in);
  const TensorOperand both = replaced(in == above, posinf.value_or(largest), lower);
  return replaced(isnan(x, where), nan, both).tensor;
}

Tensor bitwise_and(const TensorOperand& a, const TensorOperand& b) { return a & b; }
Tensor bitwise_or(const TensorOperand& a, const TensorOperand& b) { return a | b; }
Tensor bitwise_xor(const TensorOperand& a, const TensorOperand& b) { return a ^ b; }
Tensor bitwise_not(const Tensor& x, Line where) {
  (void)trace_of("bitwise_not", std::vector{x}, where);
  return unary(x.dtype(where) == DType::Bool ? Op::Not : Op::BitNot, x, where);
}
Tensor operator~(const TensorOperand& x) { return bitwise_not(x.tensor, x.where); }
Tensor bitwise_left_shift(const TensorOperand& a, const TensorOperand& b) {
  const NamedCall call("bitwise_left_shift");
  return a << b;
}
Tensor bitwise_right_shift(const TensorOperand& a, const TensorOperand& b) {
  const NamedCall call("bitwise_right_shift");
  return a >> b;
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
