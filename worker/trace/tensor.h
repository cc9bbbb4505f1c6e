// The tensor: what users hold, pass in and get back. Outside a trace it is a concrete array, inside
// one it is a value of the graph under construction. What is done with it: tensor_ops.h,
// selection_ops.h, collective_ops.h, autodiff.h.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include <lockstep/worker/exchange/observation.h>
#include <lockstep/worker/graph/array.h>
#include <lockstep/worker/graph/graph.h>
#include <lockstep/worker/trace/sym_int.h>

namespace lockstep::worker {

/// The traced function uses the tensor language wrongly: sizes that cannot fit, a dtype that an op
/// does not take, a tensor of another trace. Caught at the trace boundary.
class TraceUsageError : public std::logic_error {
  using std::logic_error::logic_error;
};

struct TensorOperand;

/// A handle, cheap to copy. Either concrete (holds an Array, no trace), or traced (a node of a
/// trace, which the handle keeps alive), or empty. One thread.
class Tensor {
 public:
  Tensor() = default;
  Tensor(Array array) : array_(std::move(array)) {}  // NOLINT: an array is a concrete tensor
  Tensor(std::shared_ptr<Trace> trace, NodeId node) : trace_(std::move(trace)), node_(node) {}

  [[nodiscard]] bool traced() const { return trace_ != nullptr; }
  [[nodiscard]] bool empty() const { return !trace_ && !array_; }
  /// The data. In a trace there is none yet: throws DataDependentError that says what to do; after
  /// it TraceUsageError. Both name the line.
  [[nodiscard]] const Array& array(Line where = Line::current()) const {
    if (trace_) refuse_data(where);
    return array_;
  }
  [[nodiscard]] const std::shared_ptr<Trace>& trace() const { return trace_; }
  /// Requires a traced tensor. Node numbers change when the trace ends.
  [[nodiscard]] NodeId node() const { return node_; }

  // What is known of a traced tensor too, until its trace ends: TraceUsageError after that, and for
  // an empty tensor.
  [[nodiscard]] DType dtype(Line where = Line::current()) const;
  [[nodiscard]] int ndim(Line where = Line::current()) const;
  /// Negative dims count from the end. Throws TraceUsageError where there is no such dim.
  [[nodiscard]] SymInt size(std::int64_t dim, Line where = Line::current()) const;
  [[nodiscard]] std::vector<SymInt> sizes(Line where = Line::current()) const;
  [[nodiscard]] SymInt numel(Line where = Line::current()) const;

  /// The rows where a bool tensor, over the leading dims, is true: [u, ..] (selection_ops.h).
  [[nodiscard]] Tensor operator[](const TensorOperand& mask) const;

  /// `if (lr > 0.5)`: what float inputs compare to is decided by the value of the group's lowest
  /// rank, with a guard. All other data is not known while tracing: throws DataDependentError that
  /// says what to do.
  explicit operator bool() const;

  /// What the user says of the dims, this call; empty: nothing. Read when inputs are flattened.
  [[nodiscard]] const std::vector<Mark>& marks() const { return marks_; }
  /// Throws TraceUsageError for a traced tensor: marks are for what calls are given.
  void mark(std::int64_t dim, Mark mark, Line where = Line::current());

 private:
  [[noreturn]] void refuse_data(const Line& where) const;
  Array array_;
  std::shared_ptr<Trace> trace_;
  NodeId node_ = 0;
  std::vector<Mark> marks_;
};

/// A float input: a number outside a trace, a value of the run inside one. In arithmetic it takes
/// the dtype of the tensor that it meets, as a plain number does.
class SymFloat {
 public:
  SymFloat() = default;
  SymFloat(double value) : value_(value) {}  // NOLINT: a number is one
  /// Requires a traced 0-d f64 tensor.
  explicit SymFloat(Tensor tensor) : tensor_(std::move(tensor)) {}
  [[nodiscard]] bool traced() const { return tensor_.traced(); }
  /// The number. In a trace there is none yet, unless floats are specialised: throws
  /// DataDependentError that says what to do; after it TraceUsageError. Both name the line.
  [[nodiscard]] double value(Line where = Line::current()) const {
    if (traced()) refuse_value(where);
    return value_;
  }
  /// Requires one that is traced: 0-d, f64.
  [[nodiscard]] const Tensor& tensor() const { return tensor_; }

 private:
  [[noreturn]] void refuse_value(const Line& where) const;
  double value_ = 0;
  Tensor tensor_;
};

/// A float as an operand, with the line it is used on.
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

/// Stay float inputs, so `lr * 0.5` still takes the dtype of what it meets.
[[nodiscard]] SymFloat operator+(const SymFloat& a, const FloatOperand& b);
[[nodiscard]] SymFloat operator-(const SymFloat& a, const FloatOperand& b);
[[nodiscard]] SymFloat operator*(const SymFloat& a, const FloatOperand& b);
[[nodiscard]] SymFloat operator/(const SymFloat& a, const FloatOperand& b);
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

/// Tells how this dim is to be treated in calls that get this handle: overrides automatic dynamic.
inline void mark_dynamic(Tensor& tensor, std::int64_t dim, Line where = Line::current()) {
  tensor.mark(dim, Mark::Dynamic, where);
}
inline void mark_maybe_dynamic(Tensor& tensor, std::int64_t dim, Line where = Line::current()) {
  tensor.mark(dim, Mark::MaybeDynamic, where);
}
inline void mark_unbacked(Tensor& tensor, std::int64_t dim, Line where = Line::current()) {
  tensor.mark(dim, Mark::Unbacked, where);
}
inline void mark_static(Tensor& tensor, std::int64_t dim, Line where = Line::current()) {
  tensor.mark(dim, Mark::Static, where);
}
/// As maybe_dynamic, and the same on all ranks: a size that differs is ConstraintViolation.
inline void mark_uniform(Tensor& tensor, std::int64_t dim, Line where = Line::current()) {
  tensor.mark(dim, Mark::Uniform, where);
}

/// An operand of arithmetic with the line it is used on: a tensor, a float input, or a number.
struct TensorOperand {
  TensorOperand(Tensor t, Line line = Line::current())  // NOLINT: converts on purpose
      : tensor(std::move(t)), where(line) {}
  TensorOperand(const SymFloat& f, Line line = Line::current());  // NOLINT: converts on purpose
  template <class T>
  requires std::floating_point<T> || std::integral<T> TensorOperand(
      T n, Line line = Line::current())  // NOLINT: converts on purpose
      : number(static_cast<double>(n)),
        plain(true),
        fraction(std::floating_point<T>),
        where(line) {}
  Tensor tensor;
  double number = 0;
  bool plain = false;     // a number, and no tensor
  bool fraction = false;  // the number was written as a floating-point one
  bool weak = false;      // a float input: takes the other operand's dtype
  Line where;
};

/// An integer operand beside a tensor: x / x.size(0).
struct CountOperand {
  CountOperand(SymInt n, Line line = Line::current())  // NOLINT: converts on purpose
      : value(std::move(n)), where(line) {}
  SymInt value;
  Line where;
};

// Arithmetic, element by element. Dims are aligned at the end; a constant 1 broadcasts, two sizes
// that are not known to be equal are checked to be equal and never broadcast (write expand() for
// that). Dtypes must be equal (cast first); a number takes the tensor's. `/` on ints is floor
// division and `%`, ints only, its remainder.
[[nodiscard]] Tensor operator+(const TensorOperand& a, const TensorOperand& b);
[[nodiscard]] Tensor operator-(const TensorOperand& a, const TensorOperand& b);
[[nodiscard]] Tensor operator*(const TensorOperand& a, const TensorOperand& b);
[[nodiscard]] Tensor operator/(const TensorOperand& a, const TensorOperand& b);
[[nodiscard]] Tensor operator%(const TensorOperand& a, const TensorOperand& b);
[[nodiscard]] Tensor operator-(const TensorOperand& x);
[[nodiscard]] Tensor operator+(const Tensor& a, const CountOperand& b);
[[nodiscard]] Tensor operator-(const Tensor& a, const CountOperand& b);
[[nodiscard]] Tensor operator*(const Tensor& a, const CountOperand& b);
[[nodiscard]] Tensor operator/(const Tensor& a, const CountOperand& b);
[[nodiscard]] Tensor operator*(const CountOperand& a, const Tensor& b);

// Comparisons, element by element, to bool.
[[nodiscard]] Tensor operator<(const TensorOperand& a, const TensorOperand& b);
[[nodiscard]] Tensor operator<=(const TensorOperand& a, const TensorOperand& b);
[[nodiscard]] Tensor operator>(const TensorOperand& a, const TensorOperand& b);
[[nodiscard]] Tensor operator>=(const TensorOperand& a, const TensorOperand& b);
[[nodiscard]] Tensor operator==(const TensorOperand& a, const TensorOperand& b);
[[nodiscard]] Tensor operator!=(const TensorOperand& a, const TensorOperand& b);
/// Bool tensors.
[[nodiscard]] Tensor operator&(const TensorOperand& a, const TensorOperand& b);
[[nodiscard]] Tensor operator|(const TensorOperand& a, const TensorOperand& b);

}  // namespace lockstep::worker
