// A GPU through CUDA's driver interface. The driver is loaded when a device is opened, so that
// programs start where there is none; built without CUDA (LOCKSTEP_WITH_CUDA=OFF, or no toolkit was
// found) there is no such device, and open says so.
#pragma once

#include <memory>

#include <lockstep/collectives/base/rank.h>
#include <lockstep/worker/device/device.h>

namespace lockstep::worker {

struct CudaDeviceOptions {
  int ordinal = 0;  // as the driver counts devices
  Rank rank{0};     // named in errors
};

/// The device works in its primary context, which is made current wherever it is called. Errors:
/// Environment, with the call and the driver's answer (no driver, no such device, no cuBLAS, built
/// without CUDA).
[[nodiscard]] Result<std::unique_ptr<Device>> open_cuda_device(CudaDeviceOptions options);

/// How many devices the driver lets this process use. Errors: as open_cuda_device, `rank` is named.
[[nodiscard]] Result<int> cuda_device_count(Rank rank);

}  // namespace lockstep::worker
