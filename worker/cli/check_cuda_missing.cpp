#include <lockstep/worker/cli/checks.h>

namespace lockstep::worker::cli {

std::vector<Check> check_cuda(const CudaPlaces&) {
  std::vector<Check> checks;
  for (const char* name : {"cuda", "nvrtc", "cublas"})
    checks.push_back({name, Check::Grade::Warn,
                      "not used: this program was built without CUDA (LOCKSTEP_WITH_CUDA); jobs "
                      "with Processor::Cuda cannot run here, programs run on the host"});
  return checks;
}

}  // namespace lockstep::worker::cli
