#include <fmt/format.h>

#include <lockstep/worker/compile/device/cuda_device.h>

namespace lockstep::worker {
namespace {

Status missing(Rank rank, const std::string& what) {
  return environment_error(
      fmt::format("rank {} cannot {}: this program was built without CUDA "
                  "(LOCKSTEP_WITH_CUDA); install the CUDA toolkit and configure again",
                  rank.value, what));
}

}  // namespace

Result<std::unique_ptr<Device>> open_cuda_device(CudaDeviceOptions options) {
  return missing(options.rank, fmt::format("open CUDA device {}", options.ordinal));
}

Result<int> cuda_device_count(Rank rank) { return missing(rank, "count CUDA devices"); }

}  // namespace lockstep::worker
