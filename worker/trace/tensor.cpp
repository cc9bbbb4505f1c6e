#include <fmt/format.h>

#include <lockstep/worker/trace/op_builder.h>
#include <lockstep/worker/trace/tensor.h>

namespace lockstep::worker {
namespace {

Tensor binary(Op op, const TensorOperand& a, const TensorOperand& b) {
  return emit(op, aligned(op_row(op).name, {a, b}, b.where), {}, b.where);
}

/// An integer as an operand beside `x`: a number where it is one.
TensorOperand beside(const Tensor& x, const CountOperand& n) {
  if (x.traced()) x.trace()->need_own(n.value, n.where);
  if (const auto number = n.value.expr().constant();
      number && std::abs(*number) < (std::int64_t{1} << 53))
    return {*number, n.where};
  const std::shared_ptr<Trace> trace = trace_of("scalar", std::vector{x}, n.where);
  return {cast(scalar(*trace, n.value, n.where), x.dtype(), n.where), n.where};
}

void need_value(const Tensor& tensor, std::string_view what, const Line& where) {
  if (tensor.traced()) tensor.trace()->need_open("a tensor", where);
  if (tensor.empty())
    throw TraceUsageError(
        fmt::format("{}: an empty tensor has no {}", location(where).text(), what));
}

}  // namespace

void Tensor::refuse_data(const Line& where) const {
  trace_->need_open("a tensor", where);
  throw shapes::DataDependentError(fmt::format(
      "{}: array() of a tensor in the traced function, whose data is known only when the graph "
      "runs; compute with the tensor itself, or return it and read it in what the call gives; "
      "item() and tolist() give the integers that sizes are made of",
      trace_->here(where).text()));
}

void SymFloat::refuse_value(const Line& where) const {
  tensor_.trace()->need_open("a float", where);
  throw shapes::DataDependentError(fmt::format(
      "{}: value() of a float in the traced function, where it is known only when the graph runs; "
      "compute with the float itself, compare it (`if (lr > 0.5)`), or return it and read it in "
      "what the call gives",
      tensor_.trace()->here(where).text()));
}

DType Tensor::dtype(Line where) const {
  need_value(*this, "dtype", where);
  return trace_ ? trace_->node(node_).meta.dtype : array_.dtype();
}

int Tensor::ndim(Line where) const {
  need_value(*this, "dims", where);
  return static_cast<int>(trace_ ? trace_->node(node_).meta.sizes.size() : array_.sizes().size());
}

SymInt Tensor::size(std::int64_t dim, Line where) const {
  const std::int64_t n = ndim(where);
  if (dim < -n || dim >= n)
    throw TraceUsageError(
        fmt::format("{}: a tensor with {} dims has no dim {}", location(where).text(), n, dim));
  const auto d = static_cast<std::size_t>(dim < 0 ? dim + n : dim);
  if (trace_) return trace_->integer(trace_->node(node_).meta.sizes[d]);
  return array_.sizes()[d];
}

std::vector<SymInt> Tensor::sizes(Line where) const {
  std::vector<SymInt> all;
  for (int d = 0; d < ndim(where); ++d) all.push_back(size(d, where));
  return all;
}

SymInt Tensor::numel(Line where) const {
  if (!trace_) return array_.elements();
  trace_->need_open("a tensor", where);
  return trace_->integer(shapes::product(meta_of(*this).sizes));
}

Tensor::operator bool() const {
  if (trace_) trace_->need_open("a tensor", Line());
  if (trace_)
    if (const auto known = trace_->host_value(*this))
      return trace_->env().evaluate(shapes::equal(known->expr(), 1), trace_->node(node_).where);
  const std::string line = trace_ ? trace_->node(node_).where.text() + ": " : "";
  throw shapes::DataDependentError(
      line +
      "a branch on the data of a tensor, which is known only when the graph runs; choose element "
      "by "
      "element with where(), or read one integer with item() and check() what must hold");
}

void Tensor::mark(std::int64_t dim, Mark mark, Line where) {
  if (trace_)
    throw TraceUsageError(fmt::format(
        "{}: a mark on a tensor in the traced function comes too late; mark the tensor that the "
        "frame is called with, before the call",
        location(where).text()));
  const auto n = static_cast<std::int64_t>(array_.sizes().size());
  if (dim < -n || dim >= n)
    throw TraceUsageError(fmt::format("{}: a tensor with {} dims has no dim {} to mark",
                                      location(where).text(), n, dim));
  if (marks_.empty()) marks_.resize(static_cast<std::size_t>(n), Mark::None);
  marks_[static_cast<std::size_t>(dim < 0 ? dim + n : dim)] = mark;
}

TensorOperand::TensorOperand(const SymFloat& f, Line line)
    : tensor(f.traced() ? f.tensor() : Tensor()),
      number(f.traced() ? 0 : f.value()),
      plain(!f.traced()),
      fraction(true),
      weak(f.traced()),
      where(line) {}

Tensor operator+(const TensorOperand& a, const TensorOperand& b) { return binary(Op::Add, a, b); }
Tensor operator-(const TensorOperand& a, const TensorOperand& b) { return binary(Op::Sub, a, b); }
Tensor operator*(const TensorOperand& a, const TensorOperand& b) { return binary(Op::Mul, a, b); }
Tensor operator/(const TensorOperand& a, const TensorOperand& b) { return binary(Op::Div, a, b); }
Tensor operator%(const TensorOperand& a, const TensorOperand& b) { return binary(Op::Mod, a, b); }
Tensor operator+(const Tensor& a, const CountOperand& b) {
  return binary(Op::Add, {a, b.where}, beside(a, b));
}
Tensor operator-(const Tensor& a, const CountOperand& b) {
  return binary(Op::Sub, {a, b.where}, beside(a, b));
}
Tensor operator*(const Tensor& a, const CountOperand& b) {
  return binary(Op::Mul, {a, b.where}, beside(a, b));
}
Tensor operator/(const Tensor& a, const CountOperand& b) {
  return binary(Op::Div, {a, b.where}, beside(a, b));
}
Tensor operator*(const CountOperand& a, const Tensor& b) {
  return binary(Op::Mul, beside(b, a), {b, a.where});
}

Tensor operator<(const TensorOperand& a, const TensorOperand& b) { return binary(Op::Lt, a, b); }
Tensor operator<=(const TensorOperand& a, const TensorOperand& b) { return binary(Op::Le, a, b); }
Tensor operator>(const TensorOperand& a, const TensorOperand& b) { return binary(Op::Gt, a, b); }
Tensor operator>=(const TensorOperand& a, const TensorOperand& b) { return binary(Op::Ge, a, b); }
Tensor operator==(const TensorOperand& a, const TensorOperand& b) { return binary(Op::Eq, a, b); }
Tensor operator!=(const TensorOperand& a, const TensorOperand& b) { return binary(Op::Ne, a, b); }
Tensor operator&(const TensorOperand& a, const TensorOperand& b) { return binary(Op::And, a, b); }
Tensor operator|(const TensorOperand& a, const TensorOperand& b) { return binary(Op::Or, a, b); }

Tensor maximum(const TensorOperand& a, const TensorOperand& b) { return binary(Op::Maximum, a, b); }
Tensor minimum(const TensorOperand& a, const TensorOperand& b) { return binary(Op::Minimum, a, b); }

}  // namespace lockstep::worker
