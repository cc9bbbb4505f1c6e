// Parameters of f16 and bf16 with copies in f32, which optimisers work on: a step that is smaller
// than half of a parameter's last place would be lost. For optimisers.cpp only.
#pragma once

#include <string_view>
#include <vector>

#include <lockstep/worker/language/op_builder.h>

namespace lockstep::worker {

/// f32 copies of those that are f16 or bf16, in their order; of concrete ones concrete.
[[nodiscard]] std::vector<Tensor> masters_of(const std::vector<Tensor>& params, const Line& where);
/// The parameters with the masters in place of those of f16 and bf16. Throws TraceUsageError where
/// there are not as many.
[[nodiscard]] std::vector<Tensor> with_masters(std::string_view what,
                                               const std::vector<Tensor>& params,
                                               const std::vector<Tensor>& masters,
                                               const Line& where);
/// New parameters, of the dtypes of the old ones; the masters among them go to `masters`.
[[nodiscard]] std::vector<Tensor> without_masters(const std::vector<Tensor>& before,
                                                  const std::vector<Tensor>& after,
                                                  std::vector<Tensor>& masters, const Line& where);

}  // namespace lockstep::worker
