// A function and its gradient, traced once, and their comparison by finite differences at any
// number of points. For gradcheck and opcheck.
#pragma once

#include <string>
#include <vector>

#include <lockstep/worker/autodiff/custom_backward.h>
#include <lockstep/worker/exchange/decision.h>
#include <lockstep/worker/graph/graph.h>
#include <lockstep/worker/opcheck/gradcheck.h>

namespace lockstep::worker {

/// Why no differences can be taken by inputs of these dtypes: "it takes no floats"; empty: they
/// can.
[[nodiscard]] std::string no_differences(const std::vector<DType>& inputs);

class TracedGradient {
 public:
  /// Of the weighted sum of all float outputs of `f` by each float input; weights follow from the
  /// seed and the element. Errors: TraceError; BadInput, if `f` gives no floats.
  [[nodiscard]] static Result<TracedGradient> trace(const Decision& inputs, const TracedFunction& f,
                                                    std::uint64_t seed);
  /// Whether the trace is of inputs of these sizes, too: its branches on them go the same way.
  [[nodiscard]] bool takes(const shapes::Valuation& sizes) const;
  /// As gradcheck() says.
  [[nodiscard]] Result<void> compare(const std::vector<Array>& inputs,
                                     const GradcheckOptions& options) const;

 private:
  TracedGradient() = default;
  Graph forward_;   // each float output times its weights, in f64
  Graph backward_;  // by each float input
  bool coarse_ = false;
};

}  // namespace lockstep::worker
