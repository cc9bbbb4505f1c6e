// A call in a trace of a function whose gradient is the user's.
#pragma once

#include <functional>
#include <vector>

#include <lockstep/worker/trace/tensor.h>

namespace lockstep::worker {

/// What a backward function is given. Everything is of the trace that is under way.
struct BackwardCall {
  std::vector<Tensor> grads;    // of the loss by each output; zeros where it does not depend on one
  std::vector<Tensor> inputs;   // as the function was called with
  std::vector<Tensor> outputs;  // what it gave
  std::vector<bool> wanted{};   // by input: its gradient is asked for
};
/// One gradient per input, with its dtype and sizes; an empty tensor where there is none.
using BackwardFunction = std::function<std::vector<Tensor>(const BackwardCall& call)>;

struct OwnGradient {
  std::vector<NodeId> inputs, outputs;  // outputs: nodes of their own, next to each other
  BackwardFunction backward;
  shapes::Location where;
};

}  // namespace lockstep::worker
