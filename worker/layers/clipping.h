// Gradients kept small. Names and meanings follow torch.nn.utils. If operands do not fit, every
// function throws TraceUsageError with the user's line.
#pragma once

#include <vector>

#include <lockstep/worker/graph/group.h>
#include <lockstep/worker/language/tensor_ops.h>

namespace lockstep::worker {

struct Clipped {
  std::vector<Tensor> grads;
  Tensor norm;  // of all gradients together, before: 0-d f32, or f64 where one of them is
};
/// Times min(1, most / (norm + 1e-6)), norm being the root of the sum of all squares of this rank.
[[nodiscard]] Clipped clip_grad_norm(const std::vector<Tensor>& grads, const FloatOperand& most);
/// The same where each rank of the group holds its own share of every parameter: the squares are
/// summed over the group, by one all_reduce. The frame's group: a default Group.
[[nodiscard]] Clipped clip_grad_norm(const std::vector<Tensor>& grads, const FloatOperand& most,
                                     const Group& group);
/// Each element within -most to most.
[[nodiscard]] std::vector<Tensor> clip_grad_value(const std::vector<Tensor>& grads,
                                                  const FloatOperand& most);

}  // namespace lockstep::worker
