#include <lockstep/worker/compile/opcheck/gradcheck.h>
#include <lockstep/worker/compile/opcheck/single_rank.h>
#include <lockstep/worker/compile/opcheck/traced_gradient.h>

namespace lockstep::worker {

Result<void> gradcheck(const TracedFunction& f, const std::vector<Array>& inputs,
                       const GradcheckOptions& options) {
  std::vector<DType> dtypes;
  for (const Array& input : inputs) dtypes.push_back(input.dtype());
  if (const std::string why = no_differences(dtypes); !why.empty())
    return bad_input("gradcheck: " + why);
  const auto traced = TracedGradient::trace(fixed_sizes(inputs), f, options.seed);
  if (!traced) return traced.error();
  return traced->compare(inputs, options);
}

}  // namespace lockstep::worker
