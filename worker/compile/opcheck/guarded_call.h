// Calls of an op on memory that reveals side effects.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <lockstep/worker/tensor/graph/own_op.h>

namespace lockstep::worker {

/// One way of computing an own op. `call` computes the result from the elements of the inputs.
struct OpWay {
  std::string name;  // "the function"
  std::function<Result<void>(const std::vector<const void*>& inputs, void* result)> call;
};

/// Returns the result of `way` on `inputs`, from calls with different bytes around the inputs and
/// in the result. The way must read only its inputs and write all of its result and nothing else.
/// If the op claims to be deterministic, the way must give equal bits each time, also after a call
/// on `others` (inputs of the same sizes). Errors: BadInput, with what the way does wrong and
/// where; errors of the way.
[[nodiscard]] Result<Array> guarded_call(const OpWay& way, const OwnClaims& claims,
                                         const std::vector<Array>& inputs,
                                         const std::vector<Array>& others, DType dtype,
                                         const std::vector<std::int64_t>& sizes);

}  // namespace lockstep::worker
