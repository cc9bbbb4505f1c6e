#include <array>
#include <limits>
#include <numbers>
#include <tuple>

#include <lockstep/collectives/communicator.h>
#include <lockstep/worker/tensor/autodiff/gradients.h>
#include <lockstep/worker/tensor/graph/op_map.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;
using Gradients = std::vector<Tensor>;

// Operands below always have equal metas, so ops are recorded directly, without broadcasting and
// its checks. Lines are those of the forward ops: the trace is set to them.
Tensor op2(Op op, const Tensor& a, const Tensor& b) {
  return emit(op, {a, b}, {}, Line::current());
}
Tensor op1(Op op, const Tensor& a) { return emit(op, {a}, {}, Line::current()); }
Tensor mul(const Tensor& a, const Tensor& b) { return op2(Op::Mul, a, b); }
Tensor choose(const Tensor& condition, const Tensor& a, const Tensor& b) {
  return emit(Op::Where, {condition, a, b}, {}, Line::current());
}
Tensor constant(const Backward& b, const Tensor& like, double value) {
  return filled(b.trace, meta_of(like), value, Line::current());
}
Tensor zero(const Backward& b, const Tensor& like) { return constant(b, like, 0); }
Tensor resized(const Tensor& x, const Tensor& like) {
  return view(x, meta_of(like).sizes, Line::current());
}
Tensor spread(const Tensor& x, const Tensor& like) {
  return expanded(x, meta_of(like).sizes, Line::current());
}
Tensor reordered(const Tensor& x, Dims dims) {
  Node node;
  node.ints = std::move(dims);
  return emit(Op::Permute, {x}, std::move(node), Line::current());
}
Tensor last_two_swapped(const Tensor& x) {
  return x.ndim() == 2 ? reordered(x, {1, 0}) : reordered(x, {0, 2, 1});
}
/// A reduction's result with its dims restored as 1, spread over the operand.
Tensor unreduced(const Backward& b, const Tensor& x) {
  std::vector<Expr> kept = meta_of(b.inputs[0]).sizes;
  for (const std::int64_t dim : b.node.ints) kept[static_cast<std::size_t>(dim)] = 1;
  return spread(view(x, std::move(kept), Line::current()), b.inputs[0]);
}

Gradients neg_rule(const Backward& b) { return {op1(Op::Neg, b.grad)}; }
Gradients abs_rule(const Backward& b) {
  const Tensor none = zero(b, b.grad);
  const Tensor below = choose(op2(Op::Lt, b.inputs[0], none), op1(Op::Neg, b.grad), none);
  return {choose(op2(Op::Gt, b.inputs[0], none), b.grad, below)};
}
Gradients exp_rule(const Backward& b) { return {mul(b.grad, b.value)}; }
Gradients log_rule(const Backward& b) { return {op2(Op::Div, b.grad, b.inputs[0])}; }
Gradients sqrt_rule(const Backward& b) {
  return {mul(b.grad, op2(Op::Div, constant(b, b.grad, 0.5), b.value))};
}
Gradients rsqrt_rule(const Backward& b) {
  const Tensor cube = mul(b.value, mul(b.value, b.value));
  return {mul(b.grad, mul(constant(b, b.grad, -0.5), cube))};
}
Gradients tanh_rule(const Backward& b) {
  return {mul(b.grad, op2(Op::Sub, constant(b, b.grad, 1), mul(b.value, b.value)))};
}
Gradients sigmoid_rule(const Backward& b) {
  return {mul(b.grad, mul(b.value, op2(Op::Sub, constant(b, b.grad, 1), b.value)))};
}
/// Passes the gradient wherever x is not cut off, also at not-a-number.
Gradients relu_rule(const Backward& b) {
  const Tensor none = zero(b, b.grad);
  return {choose(op2(Op::Le, b.value, none), none, b.grad)};
}
Gradients exp2_rule(const Backward& b) {
  return {mul(b.grad, mul(b.value, constant(b, b.grad, std::numbers::ln2)))};
}
Gradients log2_rule(const Backward& b) {
  return {op2(Op::Div, b.grad, mul(b.inputs[0], constant(b, b.grad, std::numbers::ln2)))};
}
Gradients log1p_rule(const Backward& b) {
  return {op2(Op::Div, b.grad, op2(Op::Add, b.inputs[0], constant(b, b.grad, 1)))};
}
Gradients expm1_rule(const Backward& b) {
  return {mul(b.grad, op2(Op::Add, b.value, constant(b, b.grad, 1)))};
}
Gradients sin_rule(const Backward& b) { return {mul(b.grad, op1(Op::Cos, b.inputs[0]))}; }
Gradients cos_rule(const Backward& b) {
  return {op1(Op::Neg, mul(b.grad, op1(Op::Sin, b.inputs[0])))};
}
Gradients tan_rule(const Backward& b) {
  return {mul(b.grad, op2(Op::Add, mul(b.value, b.value), constant(b, b.grad, 1)))};
}
Gradients erf_rule(const Backward& b) {
  const Tensor bell = op1(Op::Exp, op1(Op::Neg, mul(b.inputs[0], b.inputs[0])));
  return {mul(b.grad, mul(bell, constant(b, b.grad, 2 * std::numbers::inv_sqrtpi)))};
}
Gradients cast_rule(const Backward& b) {
  return {cast(b.grad, b.inputs[0].dtype(), Line::current())};
}

Gradients add_rule(const Backward& b) { return {b.grad, b.grad}; }
Gradients sub_rule(const Backward& b) {
  return {b.grad, b.wanted[1] ? op1(Op::Neg, b.grad) : Tensor()};
}
Gradients mul_rule(const Backward& b) {
  return {b.wanted[0] ? mul(b.grad, b.inputs[1]) : Tensor(),
          b.wanted[1] ? mul(b.grad, b.inputs[0]) : Tensor()};
}
Gradients div_rule(const Backward& b) {
  const Tensor first = op2(Op::Div, b.grad, b.inputs[1]);
  return {first, b.wanted[1] ? op1(Op::Neg, mul(first, b.value)) : Tensor()};
}
/// For functions that are constant between jumps: 0, also at the jumps, as in torch.
Gradients flat_rule(const Backward& b) { return Gradients(b.inputs.size()); }
/// x^0 has slope 0, also at x = 0; 0^y has slope 0 where y is not negative.
Gradients pow_rule(const Backward& b) {
  const Tensor none = zero(b, b.grad);
  const auto& [base, power] = std::tie(b.inputs[0], b.inputs[1]);
  const Tensor constant_power = op2(Op::Eq, power, none);
  Gradients out(2);
  if (b.wanted[0]) {
    const Tensor less = op2(Op::Pow, base, op2(Op::Sub, power, constant(b, b.grad, 1)));
    out[0] = choose(constant_power, none, mul(b.grad, mul(power, less)));
  }
  if (b.wanted[1]) {
    const Tensor stays = op2(Op::And, op2(Op::Eq, base, none), op2(Op::Ge, power, none));
    out[1] = choose(stays, none, mul(b.grad, mul(b.value, op1(Op::Log, base))));
  }
  return out;
}
/// At the origin the gradient is 0.
Gradients atan2_rule(const Backward& b) {
  const auto& [y, x] = std::tie(b.inputs[0], b.inputs[1]);
  const Tensor none = zero(b, b.grad);
  const Tensor square = op2(Op::Add, mul(y, y), mul(x, x));
  const Tensor by = choose(op2(Op::Eq, square, none), none, op2(Op::Div, b.grad, square));
  return {b.wanted[0] ? mul(by, x) : Tensor(), b.wanted[1] ? op1(Op::Neg, mul(by, y)) : Tensor()};
}
/// For Mod and Fmod: the op is a - b * quotient, and the quotient is constant between jumps.
Gradients remainder_rule(const Backward& b) {
  if (!b.wanted[1]) return {b.grad, Tensor()};
  const Tensor times = b.node.op == Op::Mod
                           ? op2(Op::FloorDivide, b.inputs[0], b.inputs[1])
                           : op1(Op::Trunc, op2(Op::Div, b.inputs[0], b.inputs[1]));
  return {b.grad, op1(Op::Neg, mul(b.grad, times))};
}
/// The larger (smaller) side gets the gradient. On a tie each side gets half. If an operand is not
/// a number, neither side loses, and both get all of the gradient.
Gradients extremum_rule(const Backward& b) {
  const Op loses = b.node.op == Op::Maximum ? Op::Lt : Op::Gt;
  const Tensor none = zero(b, b.grad);
  const Tensor half = mul(b.grad, constant(b, b.grad, 0.5));
  const Tensor tied = choose(op2(Op::Eq, b.inputs[0], b.inputs[1]), half, b.grad);
  const auto side = [&](std::size_t mine, std::size_t other) {
    if (!b.wanted[mine]) return Tensor();
    return choose(op2(loses, b.inputs[mine], b.inputs[other]), none, tied);
  };
  return {side(0, 1), side(1, 0)};
}
Gradients where_rule(const Backward& b) {
  const Tensor none = zero(b, b.grad);
  return {Tensor(), b.wanted[1] ? choose(b.inputs[0], b.grad, none) : Tensor(),
          b.wanted[2] ? choose(b.inputs[0], none, b.grad) : Tensor()};
}

Gradients reshape_rule(const Backward& b) { return {resized(b.grad, b.inputs[0])}; }
Gradients permute_rule(const Backward& b) {
  Dims inverse(b.node.ints.size());
  for (std::size_t i = 0; i < inverse.size(); ++i)
    inverse[static_cast<std::size_t>(b.node.ints[i])] = static_cast<std::int64_t>(i);
  return {reordered(b.grad, std::move(inverse))};
}
Gradients expand_rule(const Backward& b) {
  const std::vector<Expr> from = meta_of(b.inputs[0]).sizes, to = meta_of(b.value).sizes;
  Node node;
  for (std::size_t i = 0; i < from.size(); ++i)
    if (from[i] != to[i]) node.ints.push_back(static_cast<std::int64_t>(i));
  if (node.ints.empty()) return {b.grad};
  return {resized(emit(Op::Sum, {b.grad}, std::move(node), Line::current()), b.inputs[0])};
}

Tensor sliced(const Tensor& x, std::int64_t dim, const Expr& start, const Tensor& like) {
  Node node;
  node.ints = {dim};
  node.exprs = {start};
  node.meta = meta_of(like);
  return emit(Op::Slice, {x}, std::move(node), Line::current());
}
Gradients slice_rule(const Backward& b) {
  const auto dim = static_cast<std::size_t>(b.node.ints[0]);
  Node node;
  node.ints = b.node.ints;
  const Expr& before = b.node.exprs[0];
  node.exprs = {before, meta_of(b.inputs[0]).sizes[dim] - before - meta_of(b.value).sizes[dim]};
  return {resized(emit(Op::Pad, {b.grad}, std::move(node), Line::current()), b.inputs[0])};
}
Gradients pad_rule(const Backward& b) {
  return {sliced(b.grad, b.node.ints[0], b.node.exprs[0], b.inputs[0])};
}
Gradients cat_rule(const Backward& b) {
  Gradients out;
  Expr start = 0;
  for (std::size_t i = 0; i < b.inputs.size(); ++i) {
    out.push_back(b.wanted[i] ? sliced(b.grad, b.node.ints[0], start, b.inputs[i]) : Tensor());
    start = start + meta_of(b.inputs[i]).sizes[static_cast<std::size_t>(b.node.ints[0])];
  }
  return out;
}

Tensor flipped(const Tensor& x, Dims dims) {
  return emit(Op::Flip, {x}, Node{.ints = std::move(dims)}, Line::current());
}
Gradients flip_rule(const Backward& b) { return {flipped(b.grad, b.node.ints)}; }

Gradients sum_rule(const Backward& b) {
  const DType dtype = b.inputs[0].dtype();
  return {unreduced(b, b.grad.dtype() == dtype ? b.grad : cast(b.grad, dtype, Line::current()))};
}
/// Shared evenly among equal values.
Gradients amax_rule(const Backward& b) {
  const Tensor best = op2(Op::Eq, b.inputs[0], unreduced(b, b.value));
  Node dims;
  dims.ints = b.node.ints;
  const Tensor share = cast(best, b.grad.dtype(), Line::current());
  const Tensor count = emit(Op::Sum, {share}, std::move(dims), Line::current());
  return {mul(unreduced(b, op2(Op::Div, b.grad, count)), share)};
}
Gradients matmul_rule(const Backward& b) {
  return {b.wanted[0] ? op2(Op::Matmul, b.grad, last_two_swapped(b.inputs[1])) : Tensor(),
          b.wanted[1] ? op2(Op::Matmul, last_two_swapped(b.inputs[0]), b.grad) : Tensor()};
}
Tensor by_segments(Op op, const Tensor& x, const Tensor& y, const Tensor& counts) {
  return emit(op, {x, y, counts}, {}, Line::current());
}
Gradients segment_matmul_rule(const Backward& b) {
  const auto& [x, w, counts] = std::tie(b.inputs[0], b.inputs[1], b.inputs[2]);
  return {
      b.wanted[0] ? by_segments(Op::SegmentMatmul, b.grad, last_two_swapped(w), counts) : Tensor(),
      b.wanted[1] ? by_segments(Op::SegmentOuter, x, b.grad, counts) : Tensor(), Tensor()};
}
Gradients segment_outer_rule(const Backward& b) {
  const auto& [x, y, counts] = std::tie(b.inputs[0], b.inputs[1], b.inputs[2]);
  return {
      b.wanted[0] ? by_segments(Op::SegmentMatmul, y, last_two_swapped(b.grad), counts) : Tensor(),
      b.wanted[1] ? by_segments(Op::SegmentMatmul, x, b.grad, counts) : Tensor(), Tensor()};
}

Gradients index_select_rule(const Backward& b) {
  Node node;
  node.exprs = {meta_of(b.inputs[0]).sizes[0]};
  return {emit(Op::IndexAdd, {b.inputs[1], b.grad}, std::move(node), Line::current()), Tensor()};
}
Gradients index_add_rule(const Backward& b) {
  return {Tensor(), op2(Op::IndexSelect, b.grad, b.inputs[0])};
}

/// The exchange with its lists swapped, with the forward's own counts.
Gradients all_to_all_rule(const Backward& b) {
  const auto middle = b.node.exprs.begin() + static_cast<std::ptrdiff_t>(b.node.exprs.size() / 2);
  Node node{.text = b.node.text};
  node.exprs.assign(middle, b.node.exprs.end());
  node.exprs.insert(node.exprs.end(), b.node.exprs.begin(), middle);
  return {resized(emit(Op::AllToAll, {b.grad}, std::move(node), Line::current()), b.inputs[0])};
}
Gradients all_reduce_rule(const Backward& b) {
  if (b.node.ints[0] != static_cast<std::int64_t>(collectives::Reduce::Sum))
    throw TraceUsageError(
        b.node.where.text() +
        ": all_reduce of a minimum or maximum has no gradient; detach() it, or reduce a sum");
  return {emit(Op::AllReduce, {b.grad}, Node{.ints = b.node.ints, .text = b.node.text},
               Line::current())};
}
Gradients all_gather_rule(const Backward& b) {
  Node node{.ints = b.node.ints, .text = b.node.text, .meta = meta_of(b.inputs[0])};
  node.meta.dtype = b.grad.dtype();
  return {emit(Op::ReduceScatter, {b.grad}, std::move(node), Line::current())};
}
Gradients reduce_scatter_rule(const Backward& b) {
  return {resized(emit(Op::AllGather, {b.grad}, Node{.ints = b.node.ints, .text = b.node.text},
                       Line::current()),
                  b.inputs[0])};
}

constexpr OpMap<GradientRule> kRules(with_trait<OpRow::Differentiable>,
                                     {
                                         {Op::Neg, neg_rule},
                                         {Op::Abs, abs_rule},
                                         {Op::Exp, exp_rule},
                                         {Op::Log, log_rule},
                                         {Op::Sqrt, sqrt_rule},
                                         {Op::Rsqrt, rsqrt_rule},
                                         {Op::Tanh, tanh_rule},
                                         {Op::Sigmoid, sigmoid_rule},
                                         {Op::Relu, relu_rule},
                                         {Op::Cast, cast_rule},
                                         {Op::Add, add_rule},
                                         {Op::Sub, sub_rule},
                                         {Op::Mul, mul_rule},
                                         {Op::Div, div_rule},
                                         {Op::Maximum, extremum_rule},
                                         {Op::Minimum, extremum_rule},
                                         {Op::Where, where_rule},
                                         {Op::Exp2, exp2_rule},
                                         {Op::Log2, log2_rule},
                                         {Op::Log1p, log1p_rule},
                                         {Op::Expm1, expm1_rule},
                                         {Op::Sin, sin_rule},
                                         {Op::Cos, cos_rule},
                                         {Op::Tan, tan_rule},
                                         {Op::Erf, erf_rule},
                                         {Op::Floor, flat_rule},
                                         {Op::Ceil, flat_rule},
                                         {Op::Round, flat_rule},
                                         {Op::Trunc, flat_rule},
                                         {Op::FloorDivide, flat_rule},
                                         {Op::Pow, pow_rule},
                                         {Op::Atan2, atan2_rule},
                                         {Op::Mod, remainder_rule},
                                         {Op::Fmod, remainder_rule},
                                         {Op::Reshape, reshape_rule},
                                         {Op::Permute, permute_rule},
                                         {Op::Expand, expand_rule},
                                         {Op::Slice, slice_rule},
                                         {Op::Pad, pad_rule},
                                         {Op::Cat, cat_rule},
                                         {Op::Sum, sum_rule},
                                         {Op::Amax, amax_rule},
                                         {Op::Amin, amax_rule},
                                         {Op::Matmul, matmul_rule},
                                         {Op::SegmentMatmul, segment_matmul_rule},
                                         {Op::SegmentOuter, segment_outer_rule},
                                         {Op::IndexSelect, index_select_rule},
                                         {Op::IndexAdd, index_add_rule},
                                         {Op::Gather, gather_gradient},
                                         {Op::IndexPut, index_put_gradient},
                                         {Op::Cumsum, cumsum_gradient},
                                         {Op::AllToAll, all_to_all_rule},
                                         {Op::AllReduce, all_reduce_rule},
                                         {Op::AllGather, all_gather_rule},
                                         {Op::ReduceScatter, reduce_scatter_rule},
                                         {Op::Flip, flip_rule},
                                         {Op::Unfold, unfold_gradient},
                                         {Op::Overlay, overlay_gradient},
                                         {Op::Prod, prod_gradient},
                                         {Op::Cumprod, cumprod_gradient},
                                         {Op::LogCumsumExp, logcumsumexp_gradient},
                                         {Op::Attention, attention_gradient},
                                     });

}  // namespace

GradientRule gradient_rule(Op op) { return kRules[op]; }

}  // namespace lockstep::worker
