// Gradients of products and scans, for the table in gradients.cpp. Those of products are right with
// zeros, also in second gradients.
#pragma once

#include <vector>

#include <lockstep/worker/autodiff/gradients.h>

namespace lockstep::worker {

[[nodiscard]] std::vector<Tensor> prod_gradient(const Backward& b);
[[nodiscard]] std::vector<Tensor> cumsum_gradient(const Backward& b);
[[nodiscard]] std::vector<Tensor> cumprod_gradient(const Backward& b);
/// 0 for elements before the first one above minus infinity.
[[nodiscard]] std::vector<Tensor> logcumsumexp_gradient(const Backward& b);

}  // namespace lockstep::worker
