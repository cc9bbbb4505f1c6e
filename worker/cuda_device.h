// A GPU through CUDA's driver interface. The driver is loaded when a device is opened, so that
// programs start where there is none; built without CUDA (LOCKSTEP_WITH_CUDA=OFF, or no toolkit was
// found) there is no such device, and open says so.
#pragma once

#include <memory>

#include <lockstep/collectives/base/rank.h>
#include <lockstep/worker/device.h>

namespace lockstep::worker {

struct CudaDeviceOptions {
  int ordinal = 0;  // as the driver counts devices
  Rank rank{0};     // named in errors
};

/// Errors: Environment, with the call and the driver's answer (no driver, no such device, built
/// without CUDA).
[[nodiscard]] Result<std::unique_ptr<Device>> open_cuda_device(CudaDeviceOptions options);

}  // namespace lockstep::worker
