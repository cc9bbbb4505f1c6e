// Clipping of gradients. Names and meanings follow torch.nn.utils. If operands do not fit, every
// function throws TraceUsageError with the user's line.
#pragma once

#include <vector>

#include <lockstep/worker/tensor/graph/group.h>
#include <lockstep/worker/tensor/language/tensor_ops.h>

namespace lockstep::worker {

struct Clipped {
  std::vector<Tensor> grads;
  Tensor norm;  // of all gradients before clipping: 0-d f32, or f64 if one of them is
};
/// Gradients times min(1, most / (norm + 1e-6)); norm: root of the sum of all squares on this rank.
[[nodiscard]] Clipped clip_grad_norm(const std::vector<Tensor>& grads, const FloatOperand& most);
/// As above, if each rank of the group holds its own share of every parameter: sums the squares
/// over the group, by one all_reduce. A default Group is the frame's group.
[[nodiscard]] Clipped clip_grad_norm(const std::vector<Tensor>& grads, const FloatOperand& most,
                                     const Group& group);
/// Clamps each element to -most to most.
[[nodiscard]] std::vector<Tensor> clip_grad_value(const std::vector<Tensor>& grads,
                                                  const FloatOperand& most);

}  // namespace lockstep::worker
