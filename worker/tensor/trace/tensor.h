// The tensor, the values of user programs. Outside a trace a tensor is a concrete array; inside a
// trace it is a value of the graph under construction. Its operations are in
// worker/tensor/language.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include <lockstep/worker/agree/exchange/observation.h>
#include <lockstep/worker/tensor/graph/array.h>
#include <lockstep/worker/tensor/graph/graph.h>
#include <lockstep/worker/tensor/trace/sym_int.h>

namespace lockstep::worker {

/// The traced function uses the tensor language wrongly: sizes that cannot fit, a dtype that an op
/// does not take, a tensor of another trace. Caught at the trace boundary.
class TraceUsageError : public std::logic_error {
  using std::logic_error::logic_error;
};

struct TensorOperand;
struct Index;

/// A handle, cheap to copy. It is concrete (holds an Array, no trace), traced (a node of a trace,
/// which the handle keeps alive), or empty. Single-threaded.
class Tensor {
 public:
  Tensor() = default;
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) = default;
  // Lvalues only: `x[mask] = y` would change nothing (write x = masked_put(x, mask, y)).
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & = default;
  ~Tensor() = default;
  Tensor(Array array) : array_(std::move(array)) {}  // NOLINT: an array is a concrete tensor
  Tensor(std::shared_ptr<Trace> trace, NodeId node) : trace_(std::move(trace)), node_(node) {}

  [[nodiscard]] bool traced() const { return trace_ != nullptr; }
  [[nodiscard]] bool empty() const { return !trace_ && !array_; }
  /// The data. A traced tensor has none: throws DataDependentError during the trace,
  /// TraceUsageError after it. Both errors name the line.
  [[nodiscard]] const Array& array(Line where = Line::current()) const {
    if (trace_) refuse_data(where);
    return array_;
  }
  [[nodiscard]] const std::shared_ptr<Trace>& trace() const { return trace_; }
  /// Requires a traced tensor. Node numbers change when the trace ends.
  [[nodiscard]] NodeId node() const { return node_; }

  // Properties of concrete tensors, and of traced ones until their trace ends. After that, and for
  // an empty tensor: TraceUsageError.
  [[nodiscard]] DType dtype(Line where = Line::current()) const;
  [[nodiscard]] int ndim(Line where = Line::current()) const;
  /// Negative dims count from the end. Throws TraceUsageError for a dim that does not exist.
  [[nodiscard]] SymInt size(std::int64_t dim, Line where = Line::current()) const;
  [[nodiscard]] std::vector<SymInt> sizes(Line where = Line::current()) const;
  [[nodiscard]] SymInt numel(Line where = Line::current()) const;

  /// The rows at which the bool tensor `at`, over the leading dims, is true: [u, ..]
  /// (selection_ops.h). With an i64 tensor, the rows at these indices; several indices, `x[{i, {},
  /// j}]`, are index(x, {i, {}, j}) (index_ops.h).
  [[nodiscard]] Tensor operator[](const TensorOperand& at) const;
  [[nodiscard]] Tensor operator[](std::initializer_list<Index> at) const;

  /// For `if (lr > 0.5)`: a comparison of float inputs takes the value of the group's lowest rank,
  /// with a guard. For all other data, which is not known during the trace, throws
  /// DataDependentError.
  explicit operator bool() const;

  /// The user's marks of the dims, for this call; empty: no marks. Flattening the inputs reads
  /// them.
  [[nodiscard]] const std::vector<Mark>& marks() const { return marks_; }
  /// Marks a dim of an input. Throws TraceUsageError for a traced tensor, which is not an input.
  void mark(std::int64_t dim, Mark mark, Line where = Line::current());

 private:
  [[noreturn]] void refuse_data(const Line& where) const;
  Array array_;
  std::shared_ptr<Trace> trace_;
  NodeId node_ = 0;
  std::vector<Mark> marks_;
};

/// A float input: a number outside a trace, a value of the run inside one. In arithmetic it takes
/// the dtype of the tensor beside it, as a plain number does.
class SymFloat {
 public:
  SymFloat() = default;
  SymFloat(double value) : value_(value) {}  // NOLINT: a number is a SymFloat
  /// Requires a traced 0-d f64 tensor.
  explicit SymFloat(Tensor tensor) : tensor_(std::move(tensor)) {}
  [[nodiscard]] bool traced() const { return tensor_.traced(); }
  /// The number. A traced float has no number, unless floats are specialised: throws
  /// DataDependentError during the trace, TraceUsageError after it. Both errors name the line.
  [[nodiscard]] double value(Line where = Line::current()) const {
    if (traced()) refuse_value(where);
    return value_;
  }
  /// The 0-d f64 tensor. Requires a traced float.
  [[nodiscard]] const Tensor& tensor() const { return tensor_; }

 private:
  [[noreturn]] void refuse_value(const Line& where) const;
  double value_ = 0;
  Tensor tensor_;
};

/// Marks this dim for calls with this handle; a mark overrides automatic dynamic.
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
/// As mark_maybe_dynamic(), and the size must be the same on all ranks: a difference is
/// ConstraintViolation.
inline void mark_uniform(Tensor& tensor, std::int64_t dim, Line where = Line::current()) {
  tensor.mark(dim, Mark::Uniform, where);
}

}  // namespace lockstep::worker
