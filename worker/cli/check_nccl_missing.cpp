#include <lockstep/worker/cli/checks.h>

namespace lockstep::worker::cli {

Check check_nccl(const CudaPlaces&) {
  return {"nccl", Check::Grade::Warn,
          "not used: this program was built without NCCL (LOCKSTEP_WITH_NCCL); collectives between "
          "GPUs are staged through the host, which is slow"};
}

}  // namespace lockstep::worker::cli
