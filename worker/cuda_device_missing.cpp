#include <fmt/format.h>

#include <lockstep/worker/cuda_device.h>

namespace lockstep::worker {

Result<std::unique_ptr<Device>> open_cuda_device(CudaDeviceOptions options) {
  return Status{
      Code::Environment,
      fmt::format("rank {} cannot open CUDA device {}: this program was built without CUDA "
                  "(LOCKSTEP_WITH_CUDA); install the CUDA toolkit and configure again",
                  options.rank.value, options.ordinal),
      {},
      {}};
}

}  // namespace lockstep::worker
