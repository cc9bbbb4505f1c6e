// Runs of an op's program on a device, on copies of the inputs that are compared afterwards.
#pragma once

#include <memory>
#include <vector>

#include <lockstep/worker/compile/device/device.h>
#include <lockstep/worker/compile/execution/executable.h>
#include <lockstep/worker/tensor/graph/own_op.h>

namespace lockstep::worker {

/// The result of `program` on copies of the inputs on the device. No run may change its copies.
/// With the claim of being deterministic, a second run, after one on `others` (inputs of the same
/// sizes), must give equal bits. Errors: BadInput, with what is wrong and where; errors of the run.
[[nodiscard]] Result<Array> device_call(Executable& program, const std::shared_ptr<Device>& device,
                                        const OwnClaims& claims, const std::vector<Array>& inputs,
                                        const std::vector<Array>& others);

}  // namespace lockstep::worker
