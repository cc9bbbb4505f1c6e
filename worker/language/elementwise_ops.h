// The tensor language: what works element by element besides the operators (tensor.h). Names and
// meanings follow torch: not-a-number, ties, signs and gradients too. What is said to take floats
// refuses other dtypes. If operands do not fit, every function throws TraceUsageError with the
// user's line.
#pragma once

#include <optional>

#include <lockstep/worker/language/operators.h>

namespace lockstep::worker {

[[nodiscard]] Tensor neg(const Tensor& x, Line where = Line::current());
[[nodiscard]] Tensor abs(const Tensor& x, Line where = Line::current());
// Rounding and signs have a gradient of 0.
/// -1, 0 or 1; of not-a-number 0.
[[nodiscard]] Tensor sign(const Tensor& x, Line where = Line::current());
[[nodiscard]] Tensor relu(const Tensor& x, Line where = Line::current());
/// Of ints: x.
[[nodiscard]] Tensor floor(const Tensor& x, Line where = Line::current());
[[nodiscard]] Tensor ceil(const Tensor& x, Line where = Line::current());
/// Half to even.
[[nodiscard]] Tensor round(const Tensor& x, Line where = Line::current());
/// To `decimals` digits behind the point, negative ones before it, as torch: x * 10^decimals is
/// rounded half to even, so 1.005 with 2 is 1.0 (and in f32 a large x may become infinite). Of
/// floats.
[[nodiscard]] Tensor round(const Tensor& x, std::int64_t decimals, Line where = Line::current());
[[nodiscard]] Tensor trunc(const Tensor& x, Line where = Line::current());

// Of floats. exp to atan2 take ints and bools as well and give f32 of them.
[[nodiscard]] Tensor exp(const Tensor& x, Line where = Line::current());
[[nodiscard]] Tensor exp2(const Tensor& x, Line where = Line::current());
[[nodiscard]] Tensor expm1(const Tensor& x, Line where = Line::current());
[[nodiscard]] Tensor log(const Tensor& x, Line where = Line::current());
[[nodiscard]] Tensor log2(const Tensor& x, Line where = Line::current());
[[nodiscard]] Tensor log1p(const Tensor& x, Line where = Line::current());
[[nodiscard]] Tensor sqrt(const Tensor& x, Line where = Line::current());
[[nodiscard]] Tensor rsqrt(const Tensor& x, Line where = Line::current());
[[nodiscard]] Tensor sin(const Tensor& x, Line where = Line::current());
[[nodiscard]] Tensor cos(const Tensor& x, Line where = Line::current());
[[nodiscard]] Tensor tan(const Tensor& x, Line where = Line::current());
[[nodiscard]] Tensor tanh(const Tensor& x, Line where = Line::current());
[[nodiscard]] Tensor sigmoid(const Tensor& x, Line where = Line::current());
[[nodiscard]] Tensor erf(const Tensor& x, Line where = Line::current());
[[nodiscard]] Tensor atan2(const TensorOperand& a, const TensorOperand& b);
[[nodiscard]] Tensor silu(const Tensor& x, Line where = Line::current());
/// The tanh form: x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))).
[[nodiscard]] Tensor gelu(const Tensor& x, Line where = Line::current());
/// x/2 * (1 + erf(x / sqrt(2))).
[[nodiscard]] Tensor gelu_exact(const Tensor& x, Line where = Line::current());
/// log(1 + exp(beta x)) / beta; x where beta x is above the threshold.
[[nodiscard]] Tensor softplus(const Tensor& x, double beta = 1, double threshold = 20,
                              Line where = Line::current());
/// x where it is positive, else slope * x.
[[nodiscard]] Tensor leaky_relu(const Tensor& x, double slope = 0.01, Line where = Line::current());
/// alpha * (exp(x) - 1) where x is not positive, else x.
[[nodiscard]] Tensor elu(const Tensor& x, double alpha = 1, Line where = Line::current());

// Of ints as well.
/// a to the power of b. A negative power of an int is cut to an integer, so it is 0 but for 1 and
/// -1; a negative power that is a plain number is refused for ints.
[[nodiscard]] Tensor pow(const TensorOperand& a, const TensorOperand& b);
/// The remainder of a division rounded down (`%`): it has the sign of b.
[[nodiscard]] Tensor remainder(const TensorOperand& a, const TensorOperand& b);
/// The remainder of a division that cuts the fraction off: it has the sign of a. Of ints by 0: a.
[[nodiscard]] Tensor fmod(const TensorOperand& a, const TensorOperand& b);
/// Rounded down; the gradient is 0. Of ints by 0: 0.
[[nodiscard]] Tensor floor_divide(const TensorOperand& a, const TensorOperand& b);
/// Not-a-number in either is not-a-number. On a tie each side takes half of the gradient.
[[nodiscard]] Tensor maximum(const TensorOperand& a, const TensorOperand& b);
[[nodiscard]] Tensor minimum(const TensorOperand& a, const TensorOperand& b);
/// minimum(maximum(x, low), high). A bound that is no tensor takes no gradient, and there x has one
/// only strictly inside of the bounds.
[[nodiscard]] Tensor clamp(const Tensor& x, const TensorOperand& low, const TensorOperand& high);
[[nodiscard]] Tensor clamp_min(const Tensor& x, const TensorOperand& low);
[[nodiscard]] Tensor clamp_max(const Tensor& x, const TensorOperand& high);
/// Elements of a where the bool condition is true, else of b. All three broadcast.
[[nodiscard]] Tensor where(const Tensor& condition, const TensorOperand& a, const TensorOperand& b);

// To bool. Ints are finite.
[[nodiscard]] Tensor isnan(const Tensor& x, Line where = Line::current());
[[nodiscard]] Tensor isinf(const Tensor& x, Line where = Line::current());
[[nodiscard]] Tensor isfinite(const Tensor& x, Line where = Line::current());
/// With numbers in place of not-a-number and the infinities; the largest and lowest of the dtype
/// where none is given.
[[nodiscard]] Tensor nan_to_num(const Tensor& x, double nan = 0, std::optional<double> posinf = {},
                                std::optional<double> neginf = {}, Line where = Line::current());

// Of bools logical, of ints bit by bit; the same as the operators & | ^ ~ << >>.
[[nodiscard]] Tensor bitwise_and(const TensorOperand& a, const TensorOperand& b);
[[nodiscard]] Tensor bitwise_or(const TensorOperand& a, const TensorOperand& b);
[[nodiscard]] Tensor bitwise_xor(const TensorOperand& a, const TensorOperand& b);
[[nodiscard]] Tensor bitwise_not(const Tensor& x, Line where = Line::current());
/// By less than 0, or by all bits and more: 0, or the sign to the right.
[[nodiscard]] Tensor bitwise_left_shift(const TensorOperand& a, const TensorOperand& b);
[[nodiscard]] Tensor bitwise_right_shift(const TensorOperand& a, const TensorOperand& b);
[[nodiscard]] Tensor logical_not(const Tensor& x, Line where = Line::current());

[[nodiscard]] Tensor cast(const Tensor& x, DType dtype, Line where = Line::current());
/// The same values; gradients stop here.
[[nodiscard]] Tensor detach(const Tensor& x, Line where = Line::current());

}  // namespace lockstep::worker
