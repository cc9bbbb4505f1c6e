// Attention on a device, in blocks of queries: products by the device's library, and the program's
// kernels between them. Used by the device backend.
#pragma once

#include <span>

#include <lockstep/worker/compile/codegen/program.h>
#include <lockstep/worker/compile/device/device.h>
#include <lockstep/worker/compile/execution/device_kernels.h>
#include <lockstep/worker/compile/run/attention.h>

namespace lockstep::worker {

/// Starts an Attention step. `at`: addresses in the order of step.buffers.
[[nodiscard]] Result<void> attend(Device& device, const DeviceKernels& kernels, const Step& step,
                                  const AttentionSizes& sizes, std::span<const DeviceAddress> at);

}  // namespace lockstep::worker
