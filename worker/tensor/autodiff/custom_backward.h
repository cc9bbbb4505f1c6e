// Functions with a user-defined gradient, in place of the one that follows from their ops.
#pragma once

#include <functional>
#include <vector>

#include <lockstep/worker/tensor/trace/own_gradient.h>

namespace lockstep::worker {

using TracedFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;

/// `forward` with `backward` as its gradient, which is recorded into the same graph when grad()
/// reaches it; both are called while tracing only. Tensors that forward uses besides its inputs get
/// no gradient through it. Usual reasons: a gradient that is more exact or cheaper than the
/// recorded one, passed straight through a rounding, or clipped.
///
///   const auto rounded = custom_backward(
///       [](const std::vector<Tensor>& x) { return std::vector{round(x[0])}; },
///       [](const BackwardCall& call) { return call.grads; });
///   const Tensor y = rounded({x})[0];
///
/// Throws TraceUsageError: for inputs and outputs as other ops do; in grad(), if the gradients'
/// number, dtypes or sizes do not fit the inputs.
class CustomBackward {
 public:
  CustomBackward(TracedFunction forward, BackwardFunction backward)
      : forward_(std::move(forward)), backward_(std::move(backward)) {}
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs,
                                 Line where = Line::current()) const;

 private:
  TracedFunction forward_;
  BackwardFunction backward_;
};
[[nodiscard]] inline CustomBackward custom_backward(TracedFunction forward,
                                                    BackwardFunction backward) {
  return {std::move(forward), std::move(backward)};
}

}  // namespace lockstep::worker
