// Gradients of ops by indices, for the table in gradients.cpp.
#pragma once

#include <vector>

#include <lockstep/worker/trace/gradients.h>

namespace lockstep::worker {

[[nodiscard]] std::vector<Tensor> gather_gradient(const Backward& b);

}  // namespace lockstep::worker
