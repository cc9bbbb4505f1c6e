// A device as a machine: kernels on its stream, a pool of its memory, products by its library. What
// the host has to know is read back in its place in the order of steps. Made by the executable.
#pragma once

#include <memory>

#include <lockstep/worker/device/device.h>
#include <lockstep/worker/execution/machine.h>

namespace lockstep::worker {

/// `program` is for CUDA and outlives it; `units` are built for the device's architecture. An input
/// that is on the device already is used where it is, any other is uploaded at the step that first
/// reads it. Collectives go by the group's DeviceData where it has one (RunHost), else over the
/// host: read back, exchanged, uploaded. Errors: the device's.
[[nodiscard]] Result<std::unique_ptr<Machine>> device_machine(const Program& program,
                                                              std::span<const Bytes> units,
                                                              std::shared_ptr<Device> device);

}  // namespace lockstep::worker
