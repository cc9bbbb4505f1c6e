#include <lockstep/collectives/base/cuda_library.h>
#include <lockstep/worker/cli/checks.h>

namespace lockstep::worker::cli {

Check check_nccl(const CudaPlaces& places) {
  const auto nccl = CudaLibrary::open(CudaLibrary::Kind::Nccl, places);
  if (nccl) return {"nccl", Check::Grade::Ok, nccl->text()};
  return {"nccl", Check::Grade::Warn,
          nccl.error().message +
              "; collectives between GPUs are staged through the host, which is slow"};
}

}  // namespace lockstep::worker::cli
