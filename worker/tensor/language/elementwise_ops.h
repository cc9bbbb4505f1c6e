// The tensor language: elementwise functions besides the operators (operators.h). Names and
// meanings follow torch, also for not-a-number, ties, signs and gradients. A function of floats
// refuses other dtypes. If operands do not fit, every function throws TraceUsageError with the
// user's line.
#pragma once

#include <optional>

#include <lockstep/worker/tensor/language/operators.h>

namespace lockstep::worker {

[[nodiscard]] Tensor neg(const Tensor& x, Line where = Line::current());
[[nodiscard]] Tensor abs(const Tensor& x, Line where = Line::current());
// Rounding and sign have a gradient of 0.
/// -1, 0 or 1; 0 for not-a-number.
[[nodiscard]] Tensor sign(const Tensor& x, Line where = Line::current());
[[nodiscard]] Tensor relu(const Tensor& x, Line where = Line::current());
/// Returns ints as they are.
[[nodiscard]] Tensor floor(const Tensor& x, Line where = Line::current());
[[nodiscard]] Tensor ceil(const Tensor& x, Line where = Line::current());
/// Rounds halves to even.
[[nodiscard]] Tensor round(const Tensor& x, Line where = Line::current());
/// Rounds to `decimals` digits behind the point (negative: before it), as torch does: x *
/// 10^decimals is rounded half to even, so 1.005 to 2 decimals is 1.0 (and in f32 a large x may
/// become infinite). Takes floats only.
[[nodiscard]] Tensor round(const Tensor& x, std::int64_t decimals, Line where = Line::current());
[[nodiscard]] Tensor trunc(const Tensor& x, Line where = Line::current());

// Functions of floats. exp to atan2 also take ints and bools and return f32 for them.
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

// Functions of floats and ints.
/// a to the power of b. A negative power of an int is cut to an integer, so it is 0 except for 1
/// and -1; a plain negative number as the power of ints is refused.
[[nodiscard]] Tensor pow(const TensorOperand& a, const TensorOperand& b);
/// The remainder of a division rounded down (`%`): it has the sign of b.
[[nodiscard]] Tensor remainder(const TensorOperand& a, const TensorOperand& b);
/// The remainder of a division that cuts the fraction off: it has the sign of a. For ints with b =
/// 0: a.
[[nodiscard]] Tensor fmod(const TensorOperand& a, const TensorOperand& b);
/// Division rounded down; the gradient is 0. For ints with b = 0: 0.
[[nodiscard]] Tensor floor_divide(const TensorOperand& a, const TensorOperand& b);
/// Not-a-number if either operand is. On a tie each side takes half of the gradient.
[[nodiscard]] Tensor maximum(const TensorOperand& a, const TensorOperand& b);
[[nodiscard]] Tensor minimum(const TensorOperand& a, const TensorOperand& b);
/// minimum(maximum(x, low), high). A bound that is no tensor has no gradient; x then has one only
/// strictly inside the bounds.
[[nodiscard]] Tensor clamp(const Tensor& x, const TensorOperand& low, const TensorOperand& high);
[[nodiscard]] Tensor clamp_min(const Tensor& x, const TensorOperand& low);
[[nodiscard]] Tensor clamp_max(const Tensor& x, const TensorOperand& high);
/// Elements of a where the bool condition is true, else of b. All three broadcast.
[[nodiscard]] Tensor where(const Tensor& condition, const TensorOperand& a, const TensorOperand& b);

// Results are bool. Ints count as finite.
[[nodiscard]] Tensor isnan(const Tensor& x, Line where = Line::current());
[[nodiscard]] Tensor isinf(const Tensor& x, Line where = Line::current());
[[nodiscard]] Tensor isfinite(const Tensor& x, Line where = Line::current());
/// Replaces not-a-number and the infinities by numbers; infinities by default by the largest and
/// lowest number of the dtype.
[[nodiscard]] Tensor nan_to_num(const Tensor& x, double nan = 0, std::optional<double> posinf = {},
                                std::optional<double> neginf = {}, Line where = Line::current());

// Logical for bools, bitwise for ints; the same as the operators & | ^ ~ << >>.
[[nodiscard]] Tensor bitwise_and(const TensorOperand& a, const TensorOperand& b);
[[nodiscard]] Tensor bitwise_or(const TensorOperand& a, const TensorOperand& b);
[[nodiscard]] Tensor bitwise_xor(const TensorOperand& a, const TensorOperand& b);
[[nodiscard]] Tensor bitwise_not(const Tensor& x, Line where = Line::current());
/// A shift by a negative number, or by at least the number of bits, shifts everything out: the
/// result is 0, or for a right shift the sign (0 or -1).
[[nodiscard]] Tensor bitwise_left_shift(const TensorOperand& a, const TensorOperand& b);
[[nodiscard]] Tensor bitwise_right_shift(const TensorOperand& a, const TensorOperand& b);
[[nodiscard]] Tensor logical_not(const Tensor& x, Line where = Line::current());

[[nodiscard]] Tensor cast(const Tensor& x, DType dtype, Line where = Line::current());
/// The same values; gradients stop here.
[[nodiscard]] Tensor detach(const Tensor& x, Line where = Line::current());

}  // namespace lockstep::worker
