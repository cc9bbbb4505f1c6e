// A function and its gradient, traced once, and checked by finite differences at any number of
// points. For gradcheck and opcheck.
#pragma once

#include <string>
#include <vector>

#include <lockstep/worker/agree/exchange/decision.h>
#include <lockstep/worker/compile/opcheck/gradcheck.h>
#include <lockstep/worker/tensor/autodiff/custom_backward.h>
#include <lockstep/worker/tensor/graph/graph.h>

namespace lockstep::worker {

/// Returns why differences cannot be taken for inputs of these dtypes ("it takes no floats"); empty
/// if they can.
[[nodiscard]] std::string no_differences(const std::vector<DType>& inputs);

class TracedGradient {
 public:
  /// Traces the weighted sum of all float outputs of `f`, and its gradient by each float input;
  /// weights follow from the seed and the element. Errors: TraceError; BadInput, if `f` gives no
  /// floats.
  [[nodiscard]] static Result<TracedGradient> trace(const Decision& inputs, const TracedFunction& f,
                                                    std::uint64_t seed);
  /// True if the trace also holds for inputs of these sizes: its guards are met.
  [[nodiscard]] bool takes(const shapes::Valuation& sizes) const;
  /// Compares and fails as gradcheck() does.
  [[nodiscard]] Result<void> compare(const std::vector<Array>& inputs,
                                     const GradcheckOptions& options) const;

 private:
  TracedGradient() = default;
  Graph forward_;   // float outputs times their weights, in f64
  Graph backward_;  // the gradient by each float input
  bool coarse_ = false;
};

}  // namespace lockstep::worker
