// Gradients, op by op. For autodiff.cpp and its tests.
#pragma once

#include <vector>

#include <lockstep/worker/tensor/language/op_builder.h>

namespace lockstep::worker {

/// One node in the backward pass.
struct Backward {
  Trace& trace;
  const Node& node;
  Tensor value;                // the node's result
  Tensor grad;                 // gradient of the loss by `value`; same meta
  std::vector<Tensor> inputs;  // the node's operands
  std::vector<bool> wanted;    // per operand
};

/// Gradients by operand, each with its operand's meta; empty if not wanted or not defined (bools,
/// indices). Records ops but no guards, asserts or symbols.
using GradientRule = std::vector<Tensor> (*)(const Backward&);

/// Null for ops that are not differentiable (op.h).
[[nodiscard]] GradientRule gradient_rule(Op op);

// Rules of the table that have files of their own.

// attention_gradients.cpp. A mask's gradient and second gradients are made of all scores.
[[nodiscard]] std::vector<Tensor> attention_gradient(const Backward& b);

// index_gradients.cpp
[[nodiscard]] std::vector<Tensor> gather_gradient(const Backward& b);
/// Set: the gradient goes to the row that won, and to x where no row was put. Multiply: right with
/// zeros. Max and Min: shared evenly among all elements equal to the result.
[[nodiscard]] std::vector<Tensor> index_put_gradient(const Backward& b);

// scan_gradients.cpp. Gradients of products are right with zeros; so are second gradients.
[[nodiscard]] std::vector<Tensor> prod_gradient(const Backward& b);
[[nodiscard]] std::vector<Tensor> cumsum_gradient(const Backward& b);
[[nodiscard]] std::vector<Tensor> cumprod_gradient(const Backward& b);
/// 0 for elements before the first one above minus infinity.
[[nodiscard]] std::vector<Tensor> logcumsumexp_gradient(const Backward& b);

// window_gradients.cpp
/// Adds up overlapping windows, window element by window element.
[[nodiscard]] std::vector<Tensor> unfold_gradient(const Backward& b);
[[nodiscard]] std::vector<Tensor> overlay_gradient(const Backward& b);

}  // namespace lockstep::worker
