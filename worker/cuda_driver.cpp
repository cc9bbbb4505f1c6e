#include <fmt/format.h>

#include <lockstep/collectives/base/shared_library.h>
#include <lockstep/worker/cuda_driver.h>

namespace lockstep::worker {

#define LOCKSTEP_QUOTED(name) #name
#define LOCKSTEP_FIND(member, name) library.find(member, LOCKSTEP_QUOTED(name));

std::string CudaDriver::find() {
  SharedLibrary library({"libcuda.so.1"});
  if (!library.loaded())
    return fmt::format("there is no NVIDIA driver on this machine ({})", library.why());
  LOCKSTEP_DRIVER(LOCKSTEP_FIND)
  if (library.lacks().empty()) return {};
  return "NVIDIA's driver here is too old: it has no " + library.lacks();
}

Result<void> CudaDriver::answer(CUresult result, const char* call, const std::string& whose) const {
  if (result == CUDA_SUCCESS) return {};
  const char* name = nullptr;
  error_name(result, &name);
  return Status{Code::Environment,
                fmt::format("{} failed on {}: {} ({})", call, whose,
                            name == nullptr ? "an unknown error" : name, static_cast<int>(result)),
                {},
                {}};
}

}  // namespace lockstep::worker
