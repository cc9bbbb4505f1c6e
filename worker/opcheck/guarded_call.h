// Calls of an op on memory that shows what it does besides its work.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <lockstep/worker/graph/own_op.h>

namespace lockstep::worker {

/// One way of computing an own op: writes the result from elements of the inputs.
struct OpWay {
  std::string name;  // "the function"
  std::function<Result<void>(const std::vector<const void*>& inputs, void* result)> call;
};

/// The result of `way` on `inputs`, from calls with other bytes around the inputs and in the
/// result: it reads and writes what it is given, all of it, and nothing else. With the claim of
/// being deterministic it gives equal bits each time, also after a call on `others`, inputs of the
/// same sizes. Errors: BadInput, with what it does, where; the way's own.
[[nodiscard]] Result<Array> guarded_call(const OpWay& way, const OwnClaims& claims,
                                         const std::vector<Array>& inputs,
                                         const std::vector<Array>& others, DType dtype,
                                         const std::vector<std::int64_t>& sizes);

}  // namespace lockstep::worker
