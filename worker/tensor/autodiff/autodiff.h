// Reverse-mode differentiation of the graph under construction: the backward pass becomes part of
// the same graph, so ranks compare it like the rest.
#pragma once

#include <span>
#include <vector>

#include <lockstep/worker/tensor/trace/tensor.h>

namespace lockstep::worker {

/// Gradients of `loss` (0-d float) with respect to each of `wrt`, with their sizes and dtypes;
/// zeros for a tensor on which the loss does not depend. With collectives in between, they are the
/// gradients of the sum of all ranks' losses. Contributions are added in descending order of the
/// nodes they come from, so the result depends on the graph only. Adds no guards, asserts or
/// symbols. Ties: amax and amin share evenly among equal values, maximum and minimum give each side
/// half; relu and abs have derivative 0 at 0. Throws TraceUsageError if a path to `wrt` contains an
/// op without gradient.
[[nodiscard]] std::vector<Tensor> grad(const Tensor& loss, std::span<const Tensor> wrt,
                                       Line where = Line::current());
[[nodiscard]] std::vector<Tensor> grad(const Tensor& loss, std::initializer_list<Tensor> wrt,
                                       Line where = Line::current());

/// As grad(), from outputs whose gradients `grads` are known; an empty tensor means no gradient.
/// For gradients of control flow.
[[nodiscard]] std::vector<Tensor> pull_back(Trace& trace, const std::vector<Tensor>& outputs,
                                            const std::vector<Tensor>& grads,
                                            const std::vector<Tensor>& wrt);

}  // namespace lockstep::worker
