// A GPU through CUDA's driver interface. The driver is loaded when a device is opened, so programs
// also start without a driver. In a build without CUDA (LOCKSTEP_WITH_CUDA=OFF, or no toolkit was
// found) opening fails.
#pragma once

#include <memory>

#include <lockstep/collectives/base/rank.h>
#include <lockstep/worker/compile/device/device.h>

namespace lockstep::worker {

struct CudaDeviceOptions {
  int ordinal = 0;  // the driver's number of the device
  Rank rank{0};     // named in errors
};

/// Opens a device, which uses the GPU's primary context and makes that current in every call.
/// Errors: Environment, with the call and the driver's answer (no driver, no such device, no
/// cuBLAS, built without CUDA).
[[nodiscard]] Result<std::unique_ptr<Device>> open_cuda_device(CudaDeviceOptions options);

/// Returns the number of devices that the driver shows to this process. Errors: as
/// open_cuda_device, naming `rank`.
[[nodiscard]] Result<int> cuda_device_count(Rank rank);

}  // namespace lockstep::worker
