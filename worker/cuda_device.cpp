#include <cuda.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <lockstep/worker/cuda_device.h>

namespace lockstep::worker {
namespace {

/// The driver's functions, by the names that cuda.h gives to their present versions. Loaded for the
/// life of the process.
struct Driver {
  decltype(&cuInit) init = nullptr;
  decltype(&cuGetErrorName) error_name = nullptr;
  decltype(&cuDeviceGet) device_get = nullptr;
  decltype(&cuDeviceGetAttribute) attribute = nullptr;
  decltype(&cuDeviceGetDefaultMemPool) memory_pool = nullptr;
  decltype(&cuMemPoolSetAttribute) set_pool = nullptr;
  decltype(&cuDevicePrimaryCtxRetain) retain = nullptr;
  decltype(&cuDevicePrimaryCtxRelease) release = nullptr;
  decltype(&cuCtxSetCurrent) set_current = nullptr;
  decltype(&cuStreamCreate) create_stream = nullptr;
  decltype(&cuStreamDestroy) destroy_stream = nullptr;
  decltype(&cuStreamSynchronize) synchronise = nullptr;
  decltype(&cuModuleLoadData) load = nullptr;
  decltype(&cuModuleUnload) unload = nullptr;
  decltype(&cuModuleGetFunction) function = nullptr;
  decltype(&cuMemAllocAsync) allocate = nullptr;
  decltype(&cuMemFreeAsync) free = nullptr;
  decltype(&cuMemcpyHtoDAsync) upload = nullptr;
  decltype(&cuMemcpyDtoHAsync) download = nullptr;
  decltype(&cuLaunchKernel) launch = nullptr;
};

#define LOCKSTEP_QUOTED(name) #name
#define LOCKSTEP_NAME_OF(name) LOCKSTEP_QUOTED(name)
// Through a macro, so that cuda.h's own macros give the name of the present version.
#define LOCKSTEP_FIND(member, name)                                                       \
  driver.member =                                                                         \
      reinterpret_cast<decltype(driver.member)>(::dlsym(handle, LOCKSTEP_NAME_OF(name))); \
  if (driver.member == nullptr)                                                           \
  return "NVIDIA's driver here is too old: it has no " LOCKSTEP_NAME_OF(name)

/// What is wrong with it; empty where all is well.
std::string find_driver(Driver& driver) {
  void* handle = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return fmt::format("there is no NVIDIA driver on this machine ({})", ::dlerror());
  LOCKSTEP_FIND(init, cuInit);
  LOCKSTEP_FIND(error_name, cuGetErrorName);
  LOCKSTEP_FIND(device_get, cuDeviceGet);
  LOCKSTEP_FIND(attribute, cuDeviceGetAttribute);
  LOCKSTEP_FIND(memory_pool, cuDeviceGetDefaultMemPool);
  LOCKSTEP_FIND(set_pool, cuMemPoolSetAttribute);
  LOCKSTEP_FIND(retain, cuDevicePrimaryCtxRetain);
  LOCKSTEP_FIND(release, cuDevicePrimaryCtxRelease);
  LOCKSTEP_FIND(set_current, cuCtxSetCurrent);
  LOCKSTEP_FIND(create_stream, cuStreamCreate);
  LOCKSTEP_FIND(destroy_stream, cuStreamDestroy);
  LOCKSTEP_FIND(synchronise, cuStreamSynchronize);
  LOCKSTEP_FIND(load, cuModuleLoadData);
  LOCKSTEP_FIND(unload, cuModuleUnload);
  LOCKSTEP_FIND(function, cuModuleGetFunction);
  LOCKSTEP_FIND(allocate, cuMemAllocAsync);
  LOCKSTEP_FIND(free, cuMemFreeAsync);
  LOCKSTEP_FIND(upload, cuMemcpyHtoDAsync);
  LOCKSTEP_FIND(download, cuMemcpyDtoHAsync);
  LOCKSTEP_FIND(launch, cuLaunchKernel);
  return {};
}

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(CudaDeviceOptions options)
      : name_(fmt::format("rank {}'s CUDA device {}", options.rank.value, options.ordinal)) {}

  ~CudaDevice() override {
    if (stream_ != nullptr) driver_.destroy_stream(stream_);
    if (context_ != nullptr) driver_.release(device_);
  }

  Result<void> open(int ordinal) {
    if (std::string why = find_driver(driver_); !why.empty())
      return Status{Code::Environment, fmt::format("{} cannot be opened: {}", name_, why), {}, {}};
    if (auto done = checked(driver_.init(0), "cuInit"); !done) return done;
    if (auto done = checked(driver_.device_get(&device_, ordinal), "cuDeviceGet"); !done)
      return done;
    if (auto done = identify(); !done) return done;
    if (auto done = checked(driver_.retain(&context_, device_), "cuDevicePrimaryCtxRetain"); !done)
      return done;
    if (auto done = checked(driver_.set_current(context_), "cuCtxSetCurrent"); !done) return done;
    if (auto done = keep_freed_memory(); !done) return done;
    return checked(driver_.create_stream(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  }

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] const std::string& architecture() const override { return architecture_; }

  Result<std::optional<DeviceAddress>> allocate(std::size_t bytes) override {
    CUdeviceptr at = 0;
    const CUresult result = driver_.allocate(&at, bytes, stream_);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) return std::optional<DeviceAddress>();
    if (auto done = checked(result, "cuMemAllocAsync"); !done) return done.error();
    return std::optional(DeviceAddress{at});
  }
  Result<void> free(DeviceAddress memory) override {
    return checked(driver_.free(raw(memory), stream_), "cuMemFreeAsync");
  }
  Result<void> upload(DeviceAddress to, const void* from, std::size_t bytes) override {
    if (bytes == 0) return {};
    return checked(driver_.upload(raw(to), from, bytes, stream_), "cuMemcpyHtoDAsync");
  }
  Result<void> download(void* to, DeviceAddress from, std::size_t bytes) override {
    if (bytes > 0)
      if (auto done = checked(driver_.download(to, raw(from), bytes, stream_), "cuMemcpyDtoHAsync");
          !done)
        return done;
    return synchronise();
  }

  Result<DeviceModule> load(const Bytes& object) override {
    CUmodule module = nullptr;
    if (auto done = checked(driver_.load(&module, object.data()), "cuModuleLoadData"); !done)
      return done.error();
    return DeviceModule{reinterpret_cast<std::uint64_t>(module)};
  }
  Result<DeviceKernel> kernel(DeviceModule module, const std::string& name) override {
    CUfunction function = nullptr;
    if (auto done =
            checked(driver_.function(&function, raw(module), name.c_str()), "cuModuleGetFunction");
        !done)
      return done.error();
    return DeviceKernel{reinterpret_cast<std::uint64_t>(function)};
  }
  void unload(DeviceModule module) override { driver_.unload(raw(module)); }

  Result<void> launch(DeviceKernel kernel, std::int64_t blocks, int threads,
                      std::span<const DeviceAddress> buffers,
                      std::span<const std::int64_t> numbers) override {
    std::vector<void*> parameters;
    for (const DeviceAddress& buffer : buffers)
      parameters.push_back(const_cast<DeviceAddress*>(&buffer));
    for (const std::int64_t& number : numbers)
      parameters.push_back(const_cast<std::int64_t*>(&number));
    return checked(
        driver_.launch(reinterpret_cast<CUfunction>(kernel), static_cast<unsigned>(blocks), 1, 1,
                       static_cast<unsigned>(threads), 1, 1, 0, stream_, parameters.data(),
                       nullptr),
        "cuLaunchKernel");
  }
  Result<void> synchronise() override {
    return checked(driver_.synchronise(stream_), "cuStreamSynchronize");
  }

 private:
  static CUdeviceptr raw(DeviceAddress at) { return static_cast<CUdeviceptr>(at); }
  static CUmodule raw(DeviceModule module) { return reinterpret_cast<CUmodule>(module); }

  Result<void> checked(CUresult result, const char* call) const {
    if (result == CUDA_SUCCESS) return {};
    const char* name = nullptr;
    driver_.error_name(result, &name);
    return Status{
        Code::Environment,
        fmt::format("{} failed on {}: {} ({})", call, name_,
                    name == nullptr ? "an unknown error" : name, static_cast<int>(result)),
        {},
        {}};
  }

  Result<void> identify() {
    int major = 0, minor = 0, pools = 0;
    for (const auto& [value, which] :
         {std::pair{&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
          {&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
          {&pools, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED}})
      if (auto done = checked(driver_.attribute(value, which, device_), "cuDeviceGetAttribute");
          !done)
        return done;
    architecture_ = fmt::format("sm_{}{}", major, minor);
    name_ += fmt::format(" ({})", architecture_);
    if (pools != 0) return {};
    return Status{Code::Environment, name_ + " has no stream-ordered memory; use another", {}, {}};
  }

  /// For the next run: the driver gives freed memory back at every synchronisation otherwise.
  Result<void> keep_freed_memory() {
    CUmemoryPool pool = nullptr;
    if (auto done = checked(driver_.memory_pool(&pool, device_), "cuDeviceGetDefaultMemPool");
        !done)
      return done;
    cuuint64_t all = ~cuuint64_t{0};
    return checked(driver_.set_pool(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all),
                   "cuMemPoolSetAttribute");
  }

  Driver driver_;
  std::string name_, architecture_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<Device>> open_cuda_device(CudaDeviceOptions options) {
  auto device = std::make_unique<CudaDevice>(options);
  if (auto done = device->open(options.ordinal); !done) return done.error();
  return device;
}

}  // namespace lockstep::worker
