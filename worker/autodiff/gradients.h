// Gradients, op by op. For autodiff.cpp and its tests.
#pragma once

#include <vector>

#include <lockstep/worker/language/op_builder.h>

namespace lockstep::worker {

/// One node in the backward pass.
struct Backward {
  Trace& trace;
  const Node& node;
  Tensor value;                // the node's
  Tensor grad;                 // of the loss by `value`; same meta
  std::vector<Tensor> inputs;  // the node's operands
  std::vector<bool> wanted;    // per operand
};

/// Gradients by operand, each with its operand's meta; empty if not wanted or not defined (bools,
/// indices). Records ops but no guards, asserts or symbols.
using GradientRule = std::vector<Tensor> (*)(const Backward&);

/// Null for ops that are not differentiable (op.h).
[[nodiscard]] GradientRule gradient_rule(Op op);

}  // namespace lockstep::worker
