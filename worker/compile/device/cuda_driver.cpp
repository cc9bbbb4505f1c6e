#include <fmt/format.h>

#include <lockstep/collectives/base/cuda_library.h>
#include <lockstep/worker/compile/device/cuda_driver.h>

namespace lockstep::worker {

#define LOCKSTEP_QUOTED(name) #name
#define LOCKSTEP_FIND(member, name) library.find(member, LOCKSTEP_QUOTED(name));

std::string CudaDriver::find() {
  auto opened = CudaLibrary::open(CudaLibrary::Kind::Driver);
  if (!opened) return opened.error().message;
  CudaLibrary& library = *opened;
  LOCKSTEP_DRIVER(LOCKSTEP_FIND)
  return library.flaw();
}

Result<void> CudaDriver::answer(CUresult result, const char* call, const std::string& whose) const {
  if (result == CUDA_SUCCESS) return {};
  const char* name = nullptr;
  error_name(result, &name);
  return environment_error(fmt::format("{} failed on {}: {} ({})", call, whose,
                                       name == nullptr ? "an unknown error" : name,
                                       static_cast<int>(result)));
}

}  // namespace lockstep::worker
