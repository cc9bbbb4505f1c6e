// Runs of an op's program on a device, on copies of the inputs that are compared afterwards.
#pragma once

#include <memory>
#include <vector>

#include <lockstep/worker/compile/device/device.h>
#include <lockstep/worker/compile/execution/executable.h>
#include <lockstep/worker/tensor/graph/own_op.h>

namespace lockstep::worker {

/// Returns the result of `program` on copies of the inputs on the device. No run may change its
/// copies. If the op claims to be deterministic, a second run must give equal bits, also after a
/// run on `others` (inputs of the same sizes). Errors: BadInput, with what is wrong and where;
/// errors of the run.
[[nodiscard]] Result<Array> device_call(Executable& program, const std::shared_ptr<Device>& device,
                                        const OwnClaims& claims, const std::vector<Array>& inputs,
                                        const std::vector<Array>& others);

}  // namespace lockstep::worker
