// Gradients of ops by indices, for the table in gradients.cpp.
#pragma once

#include <vector>

#include <lockstep/worker/autodiff/gradients.h>

namespace lockstep::worker {

[[nodiscard]] std::vector<Tensor> gather_gradient(const Backward& b);
/// Set: to the row that won, and to x where there is no row. Multiply: right with zeros. Max and
/// Min: shared evenly among all elements equal to the result.
[[nodiscard]] std::vector<Tensor> index_put_gradient(const Backward& b);

}  // namespace lockstep::worker
