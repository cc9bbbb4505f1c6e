#include <algorithm>

#include <lockstep/worker/tensor/language/collective_ops.h>
#include <lockstep/worker/tensor/layers/clipping.h>
#include <lockstep/worker/tensor/layers/operands.h>

namespace lockstep::worker {
namespace {

/// The sum of the squares of all elements.
Tensor square_of(const std::vector<Tensor>& grads, const Line& where) {
  const At at{where};
  if (grads.empty()) refuse(where, "clip_grad_norm", "takes at least one gradient");
  for (const Tensor& grad : grads) need_floats("clip_grad_norm", grad, where);
  const bool wide = std::any_of(grads.begin(), grads.end(),
                                [](const Tensor& grad) { return grad.dtype() == DType::F64; });
  Tensor total;
  for (const Tensor& grad : grads) {
    const TensorOperand x(cast(grad, wide ? DType::F64 : DType::F32, where), where);
    const Tensor square = sum(x * x, {}, Keep::Drop, where);
    total = total.empty() ? square : at(total) + at(square);
  }
  return total;
}

Clipped clipped(const std::vector<Tensor>& grads, const Tensor& square, const FloatOperand& most) {
  const Line& where = most.where;
  const At at{where};
  Clipped out{{}, sqrt(square, where)};
  const Tensor least = at(out.norm) + at(1e-6);
  const Tensor ratio = at(most.value) / at(least);
  const Tensor part = clamp_max(ratio, at(1.0));
  for (const Tensor& grad : grads) {
    const Tensor wide = widened(grad, where);
    const Tensor kept = at(wide) * at(cast(part, wide.dtype(), where));
    out.grads.push_back(cast(kept, grad.dtype(), where));
  }
  return out;
}

}  // namespace

Clipped clip_grad_norm(const std::vector<Tensor>& grads, const FloatOperand& most) {
  return clipped(grads, square_of(grads, most.where), most);
}

Clipped clip_grad_norm(const std::vector<Tensor>& grads, const FloatOperand& most,
                       const Group& group) {
  const Tensor mine = square_of(grads, most.where);
  return clipped(grads, all_reduce(mine, collectives::Reduce::Sum, group, most.where), most);
}

std::vector<Tensor> clip_grad_value(const std::vector<Tensor>& grads, const FloatOperand& most) {
  std::vector<Tensor> out;
  for (const Tensor& grad : grads) {
    need_floats("clip_grad_value", grad, most.where);
    out.push_back(
        clamp(grad, TensorOperand(-most.value, most.where), TensorOperand(most.value, most.where)));
  }
  return out;
}

}  // namespace lockstep::worker
