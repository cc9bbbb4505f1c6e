#include <dlfcn.h>
#include <fmt/format.h>

#include <lockstep/worker/cuda_driver.h>

namespace lockstep::worker {

#define LOCKSTEP_QUOTED(name) #name
#define LOCKSTEP_FIND(member, name)                                                   \
  member = reinterpret_cast<decltype(&name)>(::dlsym(handle, LOCKSTEP_QUOTED(name))); \
  if (member == nullptr) return "NVIDIA's driver here is too old: it has no " LOCKSTEP_QUOTED(name);

std::string CudaDriver::find() {
  void* handle = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return fmt::format("there is no NVIDIA driver on this machine ({})", ::dlerror());
  LOCKSTEP_DRIVER(LOCKSTEP_FIND)
  return {};
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
