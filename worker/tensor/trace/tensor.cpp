#include <fmt/format.h>

#include <lockstep/worker/tensor/trace/named_call.h>
#include <lockstep/worker/tensor/trace/tensor.h>
#include <lockstep/worker/tensor/trace/tracer.h>

namespace lockstep::worker {
namespace {

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
        location(where).text() + ": " +
        NamedCall::said(fmt::format("a tensor with {} dims has no dim {}", n, dim)));
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
  return trace_->integer(shapes::product(trace_->meta(node_).sizes));
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

}  // namespace lockstep::worker
