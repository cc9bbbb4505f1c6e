#include "driver_device.h"

#include <cuda.h>
#include <dlfcn.h>

#include <lockstep/worker/cuda_nest.h>

namespace lockstep::worker {

/// The driver's functions, by the names that cuda.h gives to their present versions.
struct DriverCalls {
  decltype(&cuInit) init = nullptr;
  decltype(&cuDeviceGet) device_get = nullptr;
  decltype(&cuDeviceGetAttribute) attribute = nullptr;
  decltype(&cuDevicePrimaryCtxRetain) retain = nullptr;
  decltype(&cuDevicePrimaryCtxRelease) release = nullptr;
  decltype(&cuCtxSetCurrent) set_current = nullptr;
  decltype(&cuCtxSynchronize) synchronize = nullptr;
  decltype(&cuModuleLoadData) load = nullptr;
  decltype(&cuModuleUnload) unload = nullptr;
  decltype(&cuModuleGetFunction) function = nullptr;
  decltype(&cuMemAlloc) allocate = nullptr;
  decltype(&cuMemFree) free = nullptr;
  decltype(&cuMemcpyHtoD) upload = nullptr;
  decltype(&cuMemcpyDtoH) download = nullptr;
  decltype(&cuLaunchKernel) launch = nullptr;

  CUdevice device = 0;
  CUcontext context = nullptr;
  std::vector<CUmodule> modules;
  std::vector<CUfunction> functions;
};

namespace {

Status failure(const std::string& what) { return Status{Code::Environment, what, {}, {}}; }

Result<void> checked(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return {};
  return failure(std::string(call) + " answers " + std::to_string(static_cast<int>(result)));
}

CUdeviceptr address(const void* at) { return reinterpret_cast<CUdeviceptr>(at); }

#define LOCKSTEP_QUOTED(name) #name
#define LOCKSTEP_NAME_OF(name) LOCKSTEP_QUOTED(name)
// Through a macro, so that cuda.h's own macros give the name of the present version.
#define LOCKSTEP_FIND(member, name)                                                      \
  calls.member =                                                                         \
      reinterpret_cast<decltype(calls.member)>(::dlsym(handle, LOCKSTEP_NAME_OF(name))); \
  if (calls.member == nullptr) return failure("the driver has no " LOCKSTEP_NAME_OF(name))

Result<void> find_calls(DriverCalls& calls) {
  void* handle = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return failure(std::string("no driver: ") + ::dlerror());
  LOCKSTEP_FIND(init, cuInit);
  LOCKSTEP_FIND(device_get, cuDeviceGet);
  LOCKSTEP_FIND(attribute, cuDeviceGetAttribute);
  LOCKSTEP_FIND(retain, cuDevicePrimaryCtxRetain);
  LOCKSTEP_FIND(release, cuDevicePrimaryCtxRelease);
  LOCKSTEP_FIND(set_current, cuCtxSetCurrent);
  LOCKSTEP_FIND(synchronize, cuCtxSynchronize);
  LOCKSTEP_FIND(load, cuModuleLoadData);
  LOCKSTEP_FIND(unload, cuModuleUnload);
  LOCKSTEP_FIND(function, cuModuleGetFunction);
  LOCKSTEP_FIND(allocate, cuMemAlloc);
  LOCKSTEP_FIND(free, cuMemFree);
  LOCKSTEP_FIND(upload, cuMemcpyHtoD);
  LOCKSTEP_FIND(download, cuMemcpyDtoH);
  LOCKSTEP_FIND(launch, cuLaunchKernel);
  return {};
}

}  // namespace

DriverDevice::DriverDevice() : calls_(std::make_unique<DriverCalls>()) {}

Result<std::unique_ptr<DriverDevice>> DriverDevice::open() {
  std::unique_ptr<DriverDevice> made(new DriverDevice);
  DriverCalls& calls = *made->calls_;
  if (auto done = find_calls(calls); !done) return done.error();
  if (auto done = checked(calls.init(0), "cuInit"); !done) return done.error();
  if (auto done = checked(calls.device_get(&calls.device, 0), "cuDeviceGet"); !done)
    return done.error();
  int major = 0, minor = 0;
  for (const auto& [value, which] :
       {std::pair{&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
        {&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR}})
    if (auto done = checked(calls.attribute(value, which, calls.device), "cuDeviceGetAttribute");
        !done)
      return done.error();
  made->architecture_ = "sm_" + std::to_string(major) + std::to_string(minor);
  if (auto done = checked(calls.retain(&calls.context, calls.device), "cuDevicePrimaryCtxRetain");
      !done)
    return done.error();
  if (auto done = checked(calls.set_current(calls.context), "cuCtxSetCurrent"); !done)
    return done.error();
  return made;
}

DriverDevice::~DriverDevice() {
  if (calls_->context == nullptr) return;
  free_all();
  for (CUmodule module : calls_->modules) calls_->unload(module);
  calls_->release(calls_->device);
}

Result<void> DriverDevice::load(const Program& program, std::span<const Bytes> units) {
  for (CUmodule module : calls_->modules)
    if (auto done = checked(calls_->unload(module), "cuModuleUnload"); !done) return done;
  calls_->modules.clear();
  calls_->functions.clear();
  for (const Bytes& unit : units) {
    CUmodule module = nullptr;
    if (auto done = checked(calls_->load(&module, unit.data()), "cuModuleLoadData"); !done)
      return done;
    calls_->modules.push_back(module);
  }
  for (const Kernel& kernel : program.kernels) {
    CUfunction function = nullptr;
    if (auto done =
            checked(calls_->function(&function, calls_->modules[kernel.unit], kernel.name.c_str()),
                    "cuModuleGetFunction");
        !done)
      return done;
    calls_->functions.push_back(function);
  }
  return {};
}

Result<void*> DriverDevice::allocate(std::size_t bytes) {
  CUdeviceptr at = 0;
  // There is no memory of no bytes.
  if (auto done = checked(calls_->allocate(&at, bytes > 0 ? bytes : 1), "cuMemAlloc"); !done)
    return done.error();
  memory_.push_back(reinterpret_cast<void*>(at));
  return memory_.back();
}

Result<void> DriverDevice::upload(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return {};
  return checked(calls_->upload(address(to), from, bytes), "cuMemcpyHtoD");
}

Result<void> DriverDevice::download(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return {};
  return checked(calls_->download(to, address(from), bytes), "cuMemcpyDtoH");
}

Result<void> DriverDevice::launch(std::uint32_t kernel, std::span<void* const> buffers,
                                  std::span<const std::int64_t> numbers, std::int64_t blocks) {
  std::vector<void*> parameters;
  for (void* const& buffer : buffers) parameters.push_back(const_cast<void**>(&buffer));
  for (const std::int64_t& number : numbers)
    parameters.push_back(const_cast<std::int64_t*>(&number));
  if (auto done =
          checked(calls_->launch(calls_->functions[kernel], static_cast<unsigned>(blocks), 1, 1,
                                 kCudaBlock, 1, 1, 0, nullptr, parameters.data(), nullptr),
                  "cuLaunchKernel");
      !done)
    return done;
  return checked(calls_->synchronize(), "cuCtxSynchronize");
}

void DriverDevice::free_all() {
  for (void* at : memory_) calls_->free(address(at));
  memory_.clear();
}

}  // namespace lockstep::worker
