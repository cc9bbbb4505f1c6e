// Gradients of windows, for the table in gradients.cpp.
#pragma once

#include <vector>

#include <lockstep/worker/autodiff/gradients.h>

namespace lockstep::worker {

/// Adds up overlapping windows, window element by window element.
[[nodiscard]] std::vector<Tensor> unfold_gradient(const Backward& b);
[[nodiscard]] std::vector<Tensor> overlay_gradient(const Backward& b);

}  // namespace lockstep::worker
