// Optimisers work on f32 copies of f16 and bf16 parameters: a step smaller than half of a
// parameter's last place would be lost. For optimisers.cpp only.
#pragma once

#include <string_view>
#include <vector>

#include <lockstep/worker/tensor/language/op_builder.h>

namespace lockstep::worker {

/// f32 copies of the f16 and bf16 parameters, in their order; copies of concrete ones are concrete.
[[nodiscard]] std::vector<Tensor> masters_of(const std::vector<Tensor>& params, const Line& where);
/// The parameters with the masters in place of f16 and bf16 ones. Throws TraceUsageError if there
/// are not as many masters as such parameters.
[[nodiscard]] std::vector<Tensor> with_masters(std::string_view what,
                                               const std::vector<Tensor>& params,
                                               const std::vector<Tensor>& masters,
                                               const Line& where);
/// New parameters, of the dtypes of the old ones. Appends the master weights in `after` to
/// `masters`.
[[nodiscard]] std::vector<Tensor> split_masters(const std::vector<Tensor>& before,
                                                const std::vector<Tensor>& after,
                                                std::vector<Tensor>& masters, const Line& where);

}  // namespace lockstep::worker
