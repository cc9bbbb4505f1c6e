#include <algorithm>
#include <limits>

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/autodiff/custom_backward.h>
#include <lockstep/worker/tensor/autodiff/gradients.h>
#include <lockstep/worker/tensor/language/product_ops.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;
using Tensors = std::vector<Tensor>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Places of operands; the mask is last.
constexpr std::size_t kQuery = 0, kKey = 1, kValue = 2, kMade = 3, kGradient = 4;

/// The operand that each head of the query meets: [.., rows, width] to [.., 1, rows, width].
Tensor of_group(const Tensor& x) { return unsqueeze(x, -3, Line::current()); }
Tensor transposed(const Tensor& x) { return transpose(x, -2, -1, Line::current()); }

/// All scores, with the mask: [.., G, L, S].
Tensor scores_of(const Tensors& x, const Tensor& mask, bool causal) {
  const Line here = Line::current();
  const At at{here};
  Trace& trace = *x[kQuery].trace();
  Tensor scores = matmul(x[kQuery], transposed(of_group(x[kKey])), here);
  if (!mask.empty() && mask.dtype() != DType::Bool) scores = at(scores) + at(mask);
  if (!mask.empty() && mask.dtype() == DType::Bool)
    scores = where(mask, at(scores), at(-kInfinity));
  if (!causal) return scores;
  const Tensor row = unsqueeze(arange(trace, scores.size(-2, here), here), 1, here);
  const Tensor seen = at(row) >= at(arange(trace, scores.size(-1, here), here));
  return where(seen, at(scores), at(-kInfinity));
}

/// The op made of others: the result, then the logarithm.
Tensor plain_attention(const Tensors& x, const Tensor& mask, bool causal) {
  const Line here = Line::current();
  const At at{here};
  const Tensor scores = scores_of(x, mask, causal);
  const Tensor best = amax(detach(scores, here), {-1}, Keep::Keep, here);
  const Tensor blind = at(best) == at(-kInfinity);
  const Tensor shift = where(blind, at(0.0), at(best));
  const Tensor parts = exp(at(scores) - at(shift), here);
  const Tensor total = sum(parts, {-1}, Keep::Keep, here);
  const Tensor safe = where(blind, at(1.0), at(total));
  const Tensor sums = matmul(parts, of_group(x[kValue]), here);
  const Tensor logarithm = where(blind, at(kInfinity), at(at(shift) + at(log(safe, here))));
  return cat({at(sums) / at(safe), logarithm}, -1, here);
}

/// The gradient of the mask, from all scores.
Tensor mask_gradient(const Tensors& x, const Tensor& mask, bool causal) {
  const Line here = Line::current();
  const At at{here};
  const auto part = [&](const Tensor& of, bool of_logarithm) {
    const SymInt width = x[kValue].size(-1, here);
    return of_logarithm ? slice(of, -1, width, 1, here) : slice(of, -1, 0, width, here);
  };
  const Tensor parts = exp(at(scores_of(x, mask, causal)) - at(part(x[kMade], true)), here);
  const Tensor by_result = part(x[kGradient], false);
  const Tensor by_parts = matmul(by_result, transposed(of_group(x[kValue])), here);
  const Tensor both = at(by_result) * at(part(x[kMade], false));
  const Tensor own = at(part(x[kGradient], true)) - at(sum(both, {-1}, Keep::Keep, here));
  const Tensor all = at(parts) * at(at(by_parts) + at(own));
  Node dims;
  const std::vector<Expr> to = meta_of(mask).sizes, from = meta_of(all).sizes;
  for (std::size_t d = 0; d < to.size(); ++d)
    if (to[d] != from[d]) dims.ints.push_back(static_cast<std::int64_t>(d));
  return dims.ints.empty() ? all : view(emit(Op::Sum, {all}, std::move(dims), here), to, here);
}

/// The gradients of query, key and value.
Tensors fast_gradients(const Tensors& in, std::int64_t causal) {
  const Line here = Line::current();
  const Tensor flat = emit(Op::AttentionGradient, in, Node{.ints = {causal}}, here);
  Tensors out;
  Expr start = 0;
  for (const std::size_t k : {kQuery, kKey, kValue}) {
    const std::vector<Expr> sizes = meta_of(in[k]).sizes;
    Node part{.exprs = {start}, .ints = {0}, .meta = {flat.dtype(), {shapes::product(sizes)}}};
    start = start + part.meta.sizes[0];
    out.push_back(view(emit(Op::Slice, {flat}, std::move(part), here), sizes, here));
  }
  return out;
}

/// The second gradients: those of the gradients of plain_attention(). By the result there is none,
/// as it is made again.
Tensors second_gradients(const BackwardCall& call, bool causal, const shapes::Location& line) {
  Trace& trace = *call.inputs[0].trace();
  const Line here = Line::current();
  const auto at_line = [&] { trace.set_line(line); };  // grad() resets the line
  at_line();
  Tensors apart;  // copies, cut off from the incoming gradients
  for (const Tensor& x : call.inputs)
    apart.push_back(
        emit(Op::Reshape, {x},
             Node{.number = static_cast<double>(trace.own_number()), .meta = meta_of(x)}, here));
  const bool masked = apart.size() > kGradient + 1;
  const Tensor mask = masked ? apart.back() : Tensor();
  const auto weighed = [&](const Tensor& x, const Tensor& by) {
    return sum(emit(Op::Mul, {x, by}, {}, here), {}, Keep::Drop, here);
  };
  const Tensor made = plain_attention(apart, mask, causal);
  const Tensors first =
      grad(weighed(made, apart[kGradient]), {apart[kQuery], apart[kKey], apart[kValue]}, here);
  at_line();
  Tensor loss = weighed(first[0], call.grads[0]);
  for (std::size_t k = 1; k < first.size(); ++k)
    loss = emit(Op::Add, {loss, weighed(first[k], call.grads[k])}, {}, here);
  Tensors by{apart[kQuery], apart[kKey], apart[kValue], apart[kGradient]};
  const bool by_mask = masked && mask.dtype() != DType::Bool;
  if (by_mask) by.push_back(mask);
  Tensors second = grad(loss, by, here);
  at_line();
  second.insert(second.begin() + kMade, Tensor());
  if (masked && !by_mask) second.emplace_back();
  return second;
}

}  // namespace

std::vector<Tensor> attention_gradient(const Backward& b) {
  Tensors in(b.inputs.begin(), b.inputs.begin() + 3);
  in.insert(in.end(), {b.value, b.grad});
  const bool masked = b.inputs.size() > 3;
  if (masked) in.push_back(b.inputs.back());
  const std::int64_t causal = b.node.ints[0];
  Tensors out(b.inputs.size());
  if (b.wanted[kQuery] || b.wanted[kKey] || b.wanted[kValue]) {
    const auto own =
        custom_backward([causal](const Tensors& x) { return fast_gradients(x, causal); },
                        [causal, line = b.node.where](const BackwardCall& call) {
                          return second_gradients(call, causal != 0, line);
                        });
    const Tensors made = own(in, Line::current());
    std::ranges::copy(made, out.begin());
  }
  if (masked && b.wanted[3]) out[3] = mask_gradient(in, b.inputs[3], causal != 0);
  return out;
}

}  // namespace lockstep::worker
