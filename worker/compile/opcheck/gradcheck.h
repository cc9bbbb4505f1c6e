// Comparison of a gradient with finite differences.
#pragma once

#include <cstdint>
#include <vector>

#include <lockstep/worker/tensor/autodiff/custom_backward.h>
#include <lockstep/worker/tensor/graph/array.h>

namespace lockstep::worker {

struct GradcheckOptions {
  // If an input or output is f32, the step is 1e4 times as long and the tolerance 1e3 times as
  // wide.
  double step = 1e-6;       // change of an element, relative to the larger of 1 and its magnitude
  double tolerance = 1e-5;  // relative to the larger of 1 and the two values
  /// Number of elements of each input that are tested; in a larger input the seed picks this many.
  std::int64_t elements = 64;
  std::uint64_t seed = 1;
};

/// Compares the gradients of a weighted sum of all float outputs of `f`, by each f64 or f32 input,
/// with central differences of that sum. `f` is traced with these sizes and interpreted, on this
/// rank alone. For user-defined gradients (custom_backward, OwnOp) and for recorded ones. Choose
/// inputs away from ties, kinks and poles. Errors: BadInput, with input, element and both values at
/// the largest difference, or if no differences can be taken for the dtypes; errors of the trace
/// and of a run.
[[nodiscard]] Result<void> gradcheck(const TracedFunction& f, const std::vector<Array>& inputs,
                                     const GradcheckOptions& options = {});

}  // namespace lockstep::worker
