// Operators of tensors, float inputs and symbolic integers, on either side of each other and of
// numbers.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>

#include <lockstep/worker/tensor/trace/tensor.h>

namespace lockstep::worker {

/// A float as an operand, with the line of its use.
struct FloatOperand {
  FloatOperand(SymFloat f, Line line = Line::current())  // NOLINT: converts on purpose
      : value(std::move(f)), where(line) {}
  template <class T>
  requires std::floating_point<T> || std::integral<T> FloatOperand(
      T n, Line line = Line::current())  // NOLINT: converts on purpose
      : value(static_cast<double>(n)), where(line) {}
  SymFloat value;
  Line where;
};

/// An integer as an operand beside a float, with the line of its use.
struct CountOperand {
  CountOperand(SymInt n, Line line = Line::current())  // NOLINT: converts on purpose
      : value(std::move(n)), where(line) {}
  SymInt value;
  Line where;
};
/// The integer as a float; in a trace, a float computed when the graph runs.
[[nodiscard]] FloatOperand as_float(const CountOperand& n);

/// Arithmetic on float inputs gives float inputs, so a tensor times `lr * 0.5` keeps its dtype. `%`
/// has the sign of the divisor.
[[nodiscard]] SymFloat operator+(const SymFloat& a, const FloatOperand& b);
[[nodiscard]] SymFloat operator-(const SymFloat& a, const FloatOperand& b);
[[nodiscard]] SymFloat operator*(const SymFloat& a, const FloatOperand& b);
[[nodiscard]] SymFloat operator/(const SymFloat& a, const FloatOperand& b);
[[nodiscard]] SymFloat operator%(const SymFloat& a, const FloatOperand& b);
[[nodiscard]] SymFloat operator-(const SymFloat& x);
template <class T>
concept PlainNumber = std::floating_point<T> || std::integral<T>;
template <PlainNumber T>
[[nodiscard]] SymFloat operator+(T a, const FloatOperand& b) {
  return SymFloat(static_cast<double>(a)) + b;
}
template <PlainNumber T>
[[nodiscard]] SymFloat operator-(T a, const FloatOperand& b) {
  return SymFloat(static_cast<double>(a)) - b;
}
template <PlainNumber T>
[[nodiscard]] SymFloat operator*(T a, const FloatOperand& b) {
  return SymFloat(static_cast<double>(a)) * b;
}
template <PlainNumber T>
[[nodiscard]] SymFloat operator/(T a, const FloatOperand& b) {
  return SymFloat(static_cast<double>(a)) / b;
}
template <PlainNumber T>
[[nodiscard]] SymFloat operator%(T a, const FloatOperand& b) {
  return SymFloat(static_cast<double>(a)) % b;
}

// A float and a symbolic integer, on either side.
template <class T>
concept Fraction = std::floating_point<T> || std::same_as<T, SymFloat>;
template <Fraction F>
[[nodiscard]] SymFloat operator+(const F& a, const CountOperand& b) {
  return SymFloat(a) + as_float(b);
}
template <Fraction F>
[[nodiscard]] SymFloat operator-(const F& a, const CountOperand& b) {
  return SymFloat(a) - as_float(b);
}
template <Fraction F>
[[nodiscard]] SymFloat operator*(const F& a, const CountOperand& b) {
  return SymFloat(a) * as_float(b);
}
template <Fraction F>
[[nodiscard]] SymFloat operator/(const F& a, const CountOperand& b) {
  return SymFloat(a) / as_float(b);
}
template <Fraction F>
[[nodiscard]] SymFloat operator%(const F& a, const CountOperand& b) {
  return SymFloat(a) % as_float(b);
}
template <Fraction F>
[[nodiscard]] SymFloat operator+(const CountOperand& a, const F& b) {
  return as_float(a).value + FloatOperand(b, a.where);
}
template <Fraction F>
[[nodiscard]] SymFloat operator-(const CountOperand& a, const F& b) {
  return as_float(a).value - FloatOperand(b, a.where);
}
template <Fraction F>
[[nodiscard]] SymFloat operator*(const CountOperand& a, const F& b) {
  return as_float(a).value * FloatOperand(b, a.where);
}
template <Fraction F>
[[nodiscard]] SymFloat operator/(const CountOperand& a, const F& b) {
  return as_float(a).value / FloatOperand(b, a.where);
}
template <Fraction F>
[[nodiscard]] SymFloat operator%(const CountOperand& a, const F& b) {
  return as_float(a).value % FloatOperand(b, a.where);
}

/// An operand of arithmetic with the line of its use: a tensor, a float input, a symbolic integer,
/// or a number.
struct TensorOperand {
  TensorOperand(Tensor t, Line line = Line::current())  // NOLINT: converts on purpose
      : tensor(std::move(t)), where(line) {}
  TensorOperand(const SymFloat& f, Line line = Line::current());  // NOLINT: converts on purpose
  TensorOperand(const SymInt& n, Line line = Line::current());    // NOLINT: converts on purpose
  template <class T>
  requires std::floating_point<T> || std::integral<T> TensorOperand(
      T n, Line line = Line::current())  // NOLINT: converts on purpose
      : number(static_cast<double>(n)),
        plain(true),
        fraction(std::floating_point<T>),
        where(line) {}
  /// True for a tensor with a dtype of its own; other operands take that of the tensor beside them.
  [[nodiscard]] bool has_dtype() const { return !plain && !weak && !count; }
  Tensor tensor;
  double number = 0;
  bool plain = false;           // a number, not a traced value
  bool fraction = false;        // the number was written as a floating-point one
  bool weak = false;            // a float input: takes the other operand's dtype
  std::optional<SymInt> count;  // an integer of a trace; if it is constant, `plain` may hold, too
  Line where;
};

/// An index in x[...]: a tensor of i64 or i32, a mask of bools, or empty for a whole dim.
struct Index {
  Index(Line line = Line::current()) : where(line) {}  // NOLINT: {} is one
  Index(Tensor t, Line line = Line::current())         // NOLINT: converts on purpose
      : tensor(std::move(t)), where(line) {}
  Tensor tensor;
  Line where;
};

/// Basis of the operators below: an op of the table on operands of one size and dtype. For bools
/// `bitwise` uses the logical op.
enum class BitOp : std::uint8_t { And, Or, Xor };
[[nodiscard]] Tensor elementwise(Op op, const TensorOperand& a, const TensorOperand& b);
[[nodiscard]] Tensor bitwise(BitOp op, const TensorOperand& a, const TensorOperand& b);

// Elementwise arithmetic. Dims are aligned at the end. A dim of constant size 1 broadcasts. Two
// sizes not known to be equal are checked to be equal and never broadcast (use expand() instead).
// Dtypes must be equal (cast first); a number, a float input and a symbolic integer take the
// tensor's dtype. `/` on ints is floor division; `%` has the sign of the divisor. Templates, so
// that two integers use the operators of integers (sym_int.h).
template <int = 0>
[[nodiscard]] Tensor operator+(const TensorOperand& a, const TensorOperand& b) {
  return elementwise(Op::Add, a, b);
}
template <int = 0>
[[nodiscard]] Tensor operator-(const TensorOperand& a, const TensorOperand& b) {
  return elementwise(Op::Sub, a, b);
}
template <int = 0>
[[nodiscard]] Tensor operator*(const TensorOperand& a, const TensorOperand& b) {
  return elementwise(Op::Mul, a, b);
}
template <int = 0>
[[nodiscard]] Tensor operator/(const TensorOperand& a, const TensorOperand& b) {
  return elementwise(Op::Div, a, b);
}
template <int = 0>
[[nodiscard]] Tensor operator%(const TensorOperand& a, const TensorOperand& b) {
  return elementwise(Op::Mod, a, b);
}
[[nodiscard]] Tensor operator-(const TensorOperand& x);

// Elementwise comparisons; results are bool.
template <int = 0>
[[nodiscard]] Tensor operator<(const TensorOperand& a, const TensorOperand& b) {
  return elementwise(Op::Lt, a, b);
}
template <int = 0>
[[nodiscard]] Tensor operator<=(const TensorOperand& a, const TensorOperand& b) {
  return elementwise(Op::Le, a, b);
}
template <int = 0>
[[nodiscard]] Tensor operator>(const TensorOperand& a, const TensorOperand& b) {
  return elementwise(Op::Gt, a, b);
}
template <int = 0>
[[nodiscard]] Tensor operator>=(const TensorOperand& a, const TensorOperand& b) {
  return elementwise(Op::Ge, a, b);
}
template <int = 0>
[[nodiscard]] Tensor operator==(const TensorOperand& a, const TensorOperand& b) {
  return elementwise(Op::Eq, a, b);
}
template <int = 0>
[[nodiscard]] Tensor operator!=(const TensorOperand& a, const TensorOperand& b) {
  return elementwise(Op::Ne, a, b);
}

// Logical for bools, bitwise for ints. Shifts by less than 0, or by all bits or more, shift
// everything out.
template <int = 0>
[[nodiscard]] Tensor operator&(const TensorOperand& a, const TensorOperand& b) {
  return bitwise(BitOp::And, a, b);
}
template <int = 0>
[[nodiscard]] Tensor operator|(const TensorOperand& a, const TensorOperand& b) {
  return bitwise(BitOp::Or, a, b);
}
template <int = 0>
[[nodiscard]] Tensor operator^(const TensorOperand& a, const TensorOperand& b) {
  return bitwise(BitOp::Xor, a, b);
}
template <int = 0>
[[nodiscard]] Tensor operator<<(const TensorOperand& a, const TensorOperand& b) {
  return elementwise(Op::ShiftLeft, a, b);
}
template <int = 0>
[[nodiscard]] Tensor operator>>(const TensorOperand& a, const TensorOperand& b) {
  return elementwise(Op::ShiftRight, a, b);
}
[[nodiscard]] Tensor operator~(const TensorOperand& x);

}  // namespace lockstep::worker
