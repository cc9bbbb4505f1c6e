// Reductions and their composites. Composites are numerically stable: the largest value is
// subtracted before exponentials, and gradients do not flow through it.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include <lockstep/worker/tensor/language/op_builder.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;

/// Ascending dims without repeats; all dims if none is named. A 0-d tensor has the dim 0, which
/// reduces nothing.
Dims reduced_dims(std::string_view what, const Tensor& x, const Dims& dims, const Line& where) {
  Dims out;
  for (const std::int64_t dim : dims)
    if (x.ndim() > 0 || dim < -1 || dim > 0) out.push_back(checked_dim(what, x, dim, where));
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

/// `result`: dtype of the result; F64 for a sum of f32 that is not rounded yet.
Tensor reduced(Op op, const Tensor& x, const Dims& dims, Keep keep, const Line& where,
               std::optional<DType> result = std::nullopt) {
  (void)trace_of(op_row(op).name, std::vector{x}, where);
  Node node;
  node.meta.dtype = result.value_or(x.dtype());
  node.ints = reduced_dims(op_row(op).name, x, dims, where);
  std::vector<Expr> kept = kept_sizes(x, node.ints);
  Tensor out = node.ints.empty() && op != Op::Argmax ? x : emit(op, {x}, std::move(node), where);
  return keep == Keep::Keep ? view(out, std::move(kept), where) : out;
}

void need_floats(std::string_view what, const Tensor& x, const Line& where) {
  (void)trace_of(what, std::vector{x}, where);
  if (!is_float(x.dtype())) refuse(where, what, "takes floating-point numbers; cast first");
}

/// Number of elements in each total.
Expr count_of(const Tensor& x, const Dims& dims) {
  Expr count = 1;
  for (const std::int64_t dim : dims)
    count = count * meta_of(x).sizes[static_cast<std::size_t>(dim)];
  return x.trace()->env().simplify(count);
}

/// root(total); 0, with gradient 0, where the total is 0.
template <class Root>
Tensor rooted(const Tensor& total, const Line& where, Root root) {
  const Tensor nothing = TensorOperand(total, where) == TensorOperand(0.0, where);
  const Tensor safe =
      lockstep::worker::where(nothing, TensorOperand(1.0, where), TensorOperand(total, where));
  return lockstep::worker::where(nothing, TensorOperand(0.0, where),
                                 TensorOperand(root(safe), where));
}
Tensor square_root(const Tensor& total, const Line& where) {
  return rooted(total, where, [&](const Tensor& x) { return sqrt(x, where); });
}

/// n - correction, at least 0, where n is the number of elements in each total.
TensorOperand degrees_of_freedom(const Tensor& x, const Dims& dims, double correction,
                                 const Line& where) {
  const Expr count = count_of(x, dims);
  if (const auto n = count.constant())
    return {std::max(0.0, static_cast<double>(*n) - correction), where};
  const Tensor n = cast(scalar(*x.trace(), x.trace()->integer(count), where), DType::F64, where);
  const Tensor left = TensorOperand(n, where) - TensorOperand(correction, where);
  return {cast(maximum(TensorOperand(left, where), TensorOperand(0.0, where)), x.dtype(), where),
          where};
}

/// Gradient of a variance by x: twice the deviation from the mean, over the degrees of freedom.
/// With no degrees of freedom it is infinite, as in torch, and not a number where x is the mean.
Tensor variance_gradient(const BackwardCall& call, const Dims& over, double correction,
                         const Line& where) {
  const Tensor& x = call.inputs[0];
  const Tensor off =
      TensorOperand(x, where) - TensorOperand(mean(x, over, Keep::Keep, where), where);
  const TensorOperand degrees = degrees_of_freedom(x, over, correction, where);
  const Tensor twice = TensorOperand(off, where) * TensorOperand(2.0, where);
  Tensor slope = TensorOperand(twice, where) / degrees;
  if (!degrees.plain || degrees.number == 0) {
    const Tensor none = degrees.plain ? filled(*x.trace(), {DType::Bool, {}}, 1, where)
                                      : degrees <= TensorOperand(0.0, where);
    const Tensor infinite = lockstep::worker::where(
        TensorOperand(off, where) == TensorOperand(0.0, where),
        TensorOperand(std::numeric_limits<double>::quiet_NaN(), where),
        TensorOperand(full_like(x, std::numeric_limits<double>::infinity(), where), where));
    slope =
        lockstep::worker::where(none, TensorOperand(infinite, where), TensorOperand(slope, where));
  }
  const Tensor grad = view(call.grads[0], kept_sizes(x, over), where);
  return TensorOperand(slope, where) * TensorOperand(grad, where);
}

Spread spread_of(std::string_view what, const Tensor& x, const Dims& dims, double correction,
                 Keep keep, const Line& where) {
  need_floats(what, x, where);
  // Computed in f64, where squares neither overflow nor vanish if the deviation fits the dtype of
  // x.
  if (x.dtype() != DType::F64) {
    const Spread wide = spread_of(what, cast(x, DType::F64, where), dims, correction, keep, where);
    return {cast(wide.value, x.dtype(), where), cast(wide.mean, x.dtype(), where)};
  }
  const Dims over = reduced_dims(what, x, dims, where);
  const Tensor middle = mean(x, over, Keep::Keep, where);
  const Tensor off = TensorOperand(x, where) - TensorOperand(middle, where);
  const Tensor squares =
      sum(TensorOperand(off, where) * TensorOperand(off, where), over, keep, where);
  const Tensor value =
      TensorOperand(squares, where) / degrees_of_freedom(x, over, correction, where);
  const auto gradient = [over, correction, where](const BackwardCall& call) {
    return std::vector{variance_gradient(call, over, correction, where)};
  };
  return {with_own_gradient(what, {x}, {value}, gradient, where)[0],
          view(middle, meta_of(value).sizes, where)};
}

void need_bools(std::string_view what, const Tensor& x, const Line& where) {
  (void)trace_of(what, std::vector{x}, where);
  if (x.dtype() != DType::Bool)
    refuse(where, what, fmt::format("takes bools, not {}; compare first", meta_text(meta_of(x))));
}

/// x less its largest value over `dim`; no gradient flows through that value. If it is infinite,
/// the softmax of the whole row is not a number.
Tensor shifted_down(const Tensor& x, std::int64_t dim, const Line& where) {
  return TensorOperand(x, where) -
         TensorOperand(amax(detach(x, where), {dim}, Keep::Keep, where), where);
}

/// The largest value over `dims`, which keep size 1; without gradient. 0 where it is infinite, so
/// that it can be subtracted.
Tensor pivot(const Tensor& x, const Dims& dims, const Line& where) {
  const Tensor top = amax(detach(x, where), dims, Keep::Keep, where);
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor infinite = TensorOperand(abs(top, where), where) == TensorOperand(infinity, where);
  return lockstep::worker::where(infinite, TensorOperand(0.0, where), TensorOperand(top, where));
}

}  // namespace

Tensor sum(const Tensor& x, const Dims& dims, Keep keep, Line where) {
  return reduced(Op::Sum, x, dims, keep, where);
}
Tensor any(const Tensor& x, const Dims& dims, Keep keep, Line where) {
  const NamedCall call("any");
  need_bools("any", x, where);
  const Tensor count = sum(cast(x, DType::I64, where), dims, keep, where);
  return TensorOperand(count, where) != TensorOperand(0, where);
}
Tensor all(const Tensor& x, const Dims& dims, Keep keep, Line where) {
  const NamedCall call("all");
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
  need_floats("mean", x, where);
  if (is_low(x)) return cast(mean(widened(x, where), dims, keep, where), x.dtype(), where);
  const Expr count = count_of(x, reduced_dims("mean", x, dims, where));
  // Rounded once, so the mean of equal numbers is that number.
  const Tensor total = reduced(Op::Sum, x, dims, keep, where, DType::F64);
  const Tensor out = TensorOperand(total, where) / TensorOperand(x.trace()->integer(count), where);
  return x.dtype() == out.dtype() ? out : cast(out, x.dtype(), where);
}

Tensor prod(const Tensor& x, const Dims& dims, Keep keep, Line where) {
  return reduced(Op::Prod, x, dims, keep, where);
}

Tensor var(const Tensor& x, const Dims& dims, double correction, Keep keep, Line where) {
  const NamedCall call("var");
  return spread_of("var", x, dims, correction, keep, where).value;
}
Spread var_mean(const Tensor& x, const Dims& dims, double correction, Keep keep, Line where) {
  const NamedCall call("var_mean");
  return spread_of("var_mean", x, dims, correction, keep, where);
}
Tensor stddev(const Tensor& x, const Dims& dims, double correction, Keep keep, Line where) {
  const NamedCall call("stddev");
  if (x.traced() && is_float(x.dtype()) && x.dtype() != DType::F64)
    return cast(stddev(cast(x, DType::F64, where), dims, correction, keep, where), x.dtype(),
                where);
  return square_root(spread_of("stddev", x, dims, correction, keep, where).value, where);
}
Spread std_mean(const Tensor& x, const Dims& dims, double correction, Keep keep, Line where) {
  const NamedCall call("std_mean");
  if (x.traced() && is_float(x.dtype()) && x.dtype() != DType::F64) {
    const Spread wide = std_mean(cast(x, DType::F64, where), dims, correction, keep, where);
    return {cast(wide.value, x.dtype(), where), cast(wide.mean, x.dtype(), where)};
  }
  const Spread spread = spread_of("std_mean", x, dims, correction, keep, where);
  return {square_root(spread.value, where), spread.mean};
}

Tensor norm(const Tensor& x, double p, const Dims& dims, Keep keep, Line where) {
  const NamedCall call("norm");
  need_floats("norm", x, where);
  if (is_low(x))
    return narrowed(norm(widened(x, where), p, dims, keep, where), x.dtype(), InAutocast::StayF32,
                    where);
  const Tensor size = abs(x, where);
  if (p == 0) return cast(count_nonzero(x, dims, keep, where), x.dtype(), where);
  if (p == 1) return sum(size, dims, keep, where);
  if (p == std::numeric_limits<double>::infinity()) return amax(size, dims, keep, where);
  if (p == -std::numeric_limits<double>::infinity()) return amin(size, dims, keep, where);
  // Computed in f64, where powers neither overflow nor vanish if the norm fits f32.
  if (x.dtype() == DType::F32)
    return cast(norm(cast(x, DType::F64, where), p, dims, keep, where), DType::F32, where);
  if (p == 2)
    return square_root(sum(TensorOperand(x, where) * TensorOperand(x, where), dims, keep, where),
                       where);
  const Tensor total =
      sum(pow(TensorOperand(size, where), TensorOperand(p, where)), dims, keep, where);
  const auto root = [&](const Tensor& of) {
    return pow(TensorOperand(of, where), TensorOperand(1 / p, where));
  };
  return p < 0 ? root(total) : rooted(total, where, root);
}

Tensor count_nonzero(const Tensor& x, const Dims& dims, Keep keep, Line where) {
  const NamedCall call("count_nonzero");
  (void)trace_of("count_nonzero", std::vector{x}, where);
  const Tensor mask =
      x.dtype() == DType::Bool ? x : TensorOperand(x, where) != TensorOperand(0, where);
  return sum(cast(mask, DType::I64, where), dims, keep, where);
}

Tensor argmax(const Tensor& x, std::int64_t dim, Keep keep, Line where) {
  (void)trace_of("argmax", std::vector{x}, where);
  if (x.ndim() == 0 && reduced_dims("argmax", x, {dim}, where).empty())
    return filled(*x.trace(), {DType::I64, {}}, 0, where);
  return reduced(Op::Argmax, x, {dim}, keep, where);
}

/// argmax in reverse order: of negated floats, and of inverted ints, whose lowest has no negative.
Tensor argmin(const Tensor& x, std::int64_t dim, Keep keep, Line where) {
  const NamedCall call("argmin");
  (void)trace_of("argmin", std::vector{x}, where);
  return argmax(is_float(x.dtype()) ? neg(x, where) : bitwise_not(x, where), dim, keep, where);
}

Tensor softmax(const Tensor& x, std::int64_t dim, Line where) {
  const NamedCall call("softmax");
  if (is_low(x))
    return narrowed(softmax(widened(x, where), dim, where), x.dtype(), InAutocast::StayF32, where);
  const Tensor raised = exp(shifted_down(x, dim, where), where);
  return TensorOperand(raised, where) / TensorOperand(sum(raised, {dim}, Keep::Keep, where), where);
}

Tensor log_softmax(const Tensor& x, std::int64_t dim, Line where) {
  const NamedCall call("log_softmax");
  if (is_low(x))
    return narrowed(log_softmax(widened(x, where), dim, where), x.dtype(), InAutocast::StayF32,
                    where);
  // x - logsumexp(x) would lose results that are small beside the largest value.
  const Tensor shifted = shifted_down(x, dim, where);
  const Tensor total = sum(exp(shifted, where), {dim}, Keep::Keep, where);
  return TensorOperand(shifted, where) - TensorOperand(log(total, where), where);
}

Tensor logsumexp(const Tensor& x, const Dims& dims, Keep keep, Line where) {
  const NamedCall call("logsumexp");
  (void)trace_of("logsumexp", std::vector{x}, where);
  if (is_low(x))
    return narrowed(logsumexp(widened(x, where), dims, keep, where), x.dtype(), InAutocast::StayF32,
                    where);
  if (!is_float(x.dtype())) return logsumexp(cast(x, DType::F32, where), dims, keep, where);
  const Dims over = reduced_dims("logsumexp", x, dims, where);
  const Tensor top = pivot(x, over, where);
  const Tensor raised = exp(TensorOperand(x, where) - TensorOperand(top, where), where);
  const Tensor total = log(sum(raised, over, keep, where), where);
  return TensorOperand(total, where) + TensorOperand(view(top, meta_of(total).sizes, where), where);
}
Tensor logsumexp(const Tensor& x, std::int64_t dim, Keep keep, Line where) {
  const NamedCall call("logsumexp");
  return logsumexp(x, Dims{dim}, keep, where);
}

}  // namespace lockstep::worker
