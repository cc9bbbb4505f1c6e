// A call, in a trace, of a function with a user-defined gradient.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <lockstep/worker/tensor/trace/tensor.h>

namespace lockstep::worker {

/// Arguments of a backward function. All tensors belong to the trace in progress.
struct BackwardCall {
  std::vector<Tensor> grads;    // of the loss by each output; zeros for an unused output
  std::vector<Tensor> inputs;   // arguments of the function
  std::vector<Tensor> outputs;  // results of the function
  std::vector<bool> wanted{};   // by input: true if its gradient is asked for
};
/// Returns one gradient per input, with its dtype and sizes; an empty tensor for no gradient.
using BackwardFunction = std::function<std::vector<Tensor>(const BackwardCall& call)>;

struct OwnGradient {
  std::vector<NodeId> inputs, outputs;  // outputs: distinct nodes, next to each other
  BackwardFunction backward;
  shapes::Location where;
  std::string name = "custom_backward";  // name in errors
};

}  // namespace lockstep::worker
