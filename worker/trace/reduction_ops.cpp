// Reductions and their composites. Composites are numerically stable: the largest value is taken
// out before exponentials, and gradients do not flow through it.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include <lockstep/worker/trace/op_builder.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;

/// Ascending, each once; all dims where none is named.
Dims reduced_dims(std::string_view what, const Tensor& x, const Dims& dims, const Line& where) {
  Dims out;
  for (const std::int64_t dim : dims) out.push_back(checked_dim(what, x, dim, where));
  if (dims.empty())
    for (int d = 0; d < x.ndim(); ++d) out.push_back(d);
  std::sort(out.begin(), out.end());
  if (std::adjacent_find(out.begin(), out.end()) != out.end())
    refuse(where, what, "a dim is named twice");
  return out;
}

/// The sizes of `x` with 1 for each of `dims`.
std::vector<Expr> kept_sizes(const Tensor& x, const Dims& dims) {
  std::vector<Expr> sizes = meta_of(x).sizes;
  for (const std::int64_t dim : dims) sizes[static_cast<std::size_t>(dim)] = 1;
  return sizes;
}

Tensor reduced(Op op, const Tensor& x, const Dims& dims, Keep keep, const Line& where) {
  (void)trace_of(op_row(op).name, std::vector{x}, where);
  Node node;
  node.ints = reduced_dims(op_row(op).name, x, dims, where);
  std::vector<Expr> kept = kept_sizes(x, node.ints);
  Tensor out = node.ints.empty() && op != Op::Argmax ? x : emit(op, {x}, std::move(node), where);
  return keep == Keep::Keep ? view(out, std::move(kept), where) : out;
}

void need_bools(std::string_view what, const Tensor& x, const Line& where) {
  (void)trace_of(what, std::vector{x}, where);
  if (x.dtype() != DType::Bool)
    refuse(where, what, fmt::format("takes bools, not {}; compare first", meta_text(meta_of(x))));
}

/// The largest value along `dim`, kept, without gradient; 0 where it is infinite, so that it can be
/// subtracted.
Tensor pivot(const Tensor& x, std::int64_t dim, const Line& where) {
  const Tensor top = amax(detach(x, where), {dim}, Keep::Keep, where);
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor infinite = TensorOperand(abs(top, where), where) == TensorOperand(infinity, where);
  return lockstep::worker::where(infinite, TensorOperand(0.0, where), TensorOperand(top, where));
}

}  // namespace

Tensor sum(const Tensor& x, const Dims& dims, Keep keep, Line where) {
  return reduced(Op::Sum, x, dims, keep, where);
}
Tensor any(const Tensor& x, const Dims& dims, Keep keep, Line where) {
  need_bools("any", x, where);
  const Tensor count = sum(cast(x, DType::I64, where), dims, keep, where);
  return TensorOperand(count, where) != TensorOperand(0, where);
}
Tensor all(const Tensor& x, const Dims& dims, Keep keep, Line where) {
  need_bools("all", x, where);
  return logical_not(any(logical_not(x, where), dims, keep, where), where);
}
Tensor amax(const Tensor& x, const Dims& dims, Keep keep, Line where) {
  return reduced(Op::Amax, x, dims, keep, where);
}
Tensor amin(const Tensor& x, const Dims& dims, Keep keep, Line where) {
  return reduced(Op::Amin, x, dims, keep, where);
}

Tensor mean(const Tensor& x, const Dims& dims, Keep keep, Line where) {
  const std::shared_ptr<Trace> trace = trace_of("mean", std::vector{x}, where);
  if (!is_float(x.dtype())) refuse(where, "mean", "takes floating-point numbers; cast first");
  Expr count = 1;
  for (const std::int64_t dim : reduced_dims("mean", x, dims, where))
    count = count * meta_of(x).sizes[static_cast<std::size_t>(dim)];
  return TensorOperand(sum(x, dims, keep, where), where) /
         TensorOperand(trace->integer(count), where);
}

Tensor argmax(const Tensor& x, std::int64_t dim, Keep keep, Line where) {
  return reduced(Op::Argmax, x, {dim}, keep, where);
}

Tensor softmax(const Tensor& x, std::int64_t dim, Line where) {
  const Tensor raised =
      exp(TensorOperand(x, where) - TensorOperand(pivot(x, dim, where), where), where);
  return TensorOperand(raised, where) / TensorOperand(sum(raised, {dim}, Keep::Keep, where), where);
}

Tensor log_softmax(const Tensor& x, std::int64_t dim, Line where) {
  return TensorOperand(x, where) - TensorOperand(logsumexp(x, dim, Keep::Keep, where), where);
}

Tensor logsumexp(const Tensor& x, std::int64_t dim, Keep keep, Line where) {
  const Tensor top = pivot(x, dim, where);
  const Tensor raised = exp(TensorOperand(x, where) - TensorOperand(top, where), where);
  const Tensor kept = TensorOperand(log(sum(raised, {dim}, Keep::Keep, where), where), where) +
                      TensorOperand(top, where);
  if (keep == Keep::Keep) return kept;
  std::vector<Expr> sizes = meta_of(kept).sizes;
  sizes.erase(sizes.begin() + checked_dim("logsumexp", x, dim, where));
  return view(kept, std::move(sizes), where);
}

}  // namespace lockstep::worker
