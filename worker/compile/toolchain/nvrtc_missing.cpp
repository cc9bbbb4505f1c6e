#include <fmt/format.h>

#include <lockstep/worker/compile/toolchain/nvrtc_toolchain.h>

namespace lockstep::worker {

Result<std::unique_ptr<Toolchain>> open_nvrtc(NvrtcOptions options) {
  return environment_error(
      fmt::format("rank {} cannot make kernels for {}: this program was built without CUDA "
                  "(LOCKSTEP_WITH_CUDA); install the CUDA toolkit and configure again",
                  options.rank.value, options.architecture));
}

}  // namespace lockstep::worker
