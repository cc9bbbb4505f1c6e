#include <utility>
#include <vector>

#include <cuda.h>
#include <fmt/format.h>

#include <lockstep/worker/compile/device/cublas_matmul.h>
#include <lockstep/worker/compile/device/cuda_device.h>
#include <lockstep/worker/compile/device/cuda_driver.h>

namespace lockstep::worker {
namespace {

/// Returns the UUID as nvidia-smi prints it.
std::string unit_text(const CUuuid& unit) {
  std::string out = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) out += '-';
    out += fmt::format("{:02x}", static_cast<unsigned char>(unit.bytes[i]));
  }
  return out;
}

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(CudaDeviceOptions options)
      : ordinal_(options.ordinal),
        name_(fmt::format("rank {}'s CUDA device {}", options.rank.value, options.ordinal)) {}

  ~CudaDevice() override {
    if (context_ == nullptr) return;
    driver_.set_current(context_);
    products_.reset();
    if (workspace_ != DeviceAddress{}) driver_.free(raw(workspace_), stream_);
    for (CUevent event : events_) driver_.destroy_event(event);
    for (CUstream stream : {stream_, ranks_, beside_})
      if (stream != nullptr) driver_.destroy_stream(stream);
    driver_.release(device_);
  }
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  Result<void> open() {
    if (std::string why = driver_.find(); !why.empty())
      return environment_error(fmt::format("{} cannot be opened: {}", name_, why));
    if (auto done = checked(driver_.init(0), "cuInit"); !done) return done;
    if (auto done = checked(driver_.device_get(&device_, ordinal_), "cuDeviceGet"); !done)
      return done;
    if (auto done = identify(); !done) return done;
    if (auto done = checked(driver_.retain(&context_, device_), "cuDevicePrimaryCtxRetain"); !done)
      return done;
    if (auto done = enter(); !done) return done;
    if (auto done = keep_freed(~cuuint64_t{0}); !done) return done;
    for (CUstream* stream : {&stream_, &ranks_, &beside_})
      if (auto done =
              checked(driver_.create_stream(stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
          !done)
        return done;
    return open_products();
  }

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] const std::string& architecture() const override { return architecture_; }
  [[nodiscard]] int ordinal() const override { return ordinal_; }
  [[nodiscard]] const std::string& unit_name() const override { return unit_name_; }
  [[nodiscard]] const std::string& product_identity() const override {
    return products_->identity();
  }
  [[nodiscard]] void* stream(DeviceStream which) const override { return raw(which); }

  Result<std::optional<DeviceAddress>> allocate(std::size_t bytes) override {
    if (auto done = enter(); !done) return done.error();
    // An allocation on a stream that records would become part of the recording.
    const CUstream from = recording_ ? beside_ : stream_;
    CUdeviceptr at = 0;
    const CUresult result = driver_.allocate(&at, bytes, from);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) return std::optional<DeviceAddress>();
    if (auto done = checked(result, "cuMemAllocAsync"); !done) return done.error();
    if (recording_)
      if (auto done = checked(driver_.synchronise(beside_), "cuStreamSynchronize"); !done) {
        freed_late_.push_back(DeviceAddress{at});
        return done.error();
      }
    return std::optional(DeviceAddress{at});
  }
  Result<void> free(DeviceAddress memory) override {
    auto entered = enter();
    if (recording_) {
      freed_late_.push_back(memory);
      return entered;
    }
    auto done = checked(driver_.free(raw(memory), stream_), "cuMemFreeAsync");
    return entered ? done : entered;
  }
  Result<void> upload(DeviceAddress to, const void* from, std::size_t bytes) override {
    if (bytes == 0) return {};
    if (auto done = enter_unrecorded("an upload"); !done) return done;
    return checked(driver_.upload(raw(to), from, bytes, stream_), "cuMemcpyHtoDAsync");
  }
  Result<void> download(void* to, DeviceAddress from, std::size_t bytes) override {
    if (auto done = enter_unrecorded("a download"); !done) return done;
    if (auto done = checked(driver_.synchronise(ranks_), "cuStreamSynchronize"); !done) return done;
    if (bytes > 0)
      if (auto done = checked(driver_.download(to, raw(from), bytes, stream_), "cuMemcpyDtoHAsync");
          !done)
        return done;
    return checked(driver_.synchronise(stream_), "cuStreamSynchronize");
  }
  Result<void> share() override {
    if (auto done = enter(); !done) return done;
    shared_ = true;
    return keep_freed(0);
  }
  [[nodiscard]] bool shared() const override { return shared_; }
  Result<void> zero(DeviceAddress to, std::size_t bytes) override {
    if (bytes == 0) return {};
    if (auto done = enter(); !done) return done;
    return checked(driver_.fill(raw(to), 0, bytes, stream_), "cuMemsetD8Async");
  }
  Result<void> copy(DeviceAddress to, DeviceAddress from, std::size_t bytes) override {
    if (bytes == 0) return {};
    if (auto done = enter(); !done) return done;
    return checked(driver_.copy(raw(to), raw(from), bytes, stream_), "cuMemcpyDtoDAsync");
  }

  Result<DeviceModule> load(const Bytes& object) override {
    if (auto done = enter(); !done) return done.error();
    CUmodule module = nullptr;
    if (auto done = checked(driver_.load(&module, object.data()), "cuModuleLoadData"); !done)
      return done.error();
    return DeviceModule{reinterpret_cast<std::uint64_t>(module)};
  }
  Result<DeviceKernel> kernel(DeviceModule module, const std::string& name) override {
    if (auto done = enter(); !done) return done.error();
    CUfunction function = nullptr;
    if (auto done =
            checked(driver_.function(&function, raw(module), name.c_str()), "cuModuleGetFunction");
        !done)
      return done.error();
    return DeviceKernel{reinterpret_cast<std::uint64_t>(function)};
  }
  void unload(DeviceModule module) override {
    (void)enter();
    driver_.unload(raw(module));
  }

  Result<void> launch(DeviceKernel kernel, std::int64_t blocks, int threads,
                      std::span<const DeviceAddress> buffers,
                      std::span<const std::int64_t> numbers) override {
    if (auto done = enter(); !done) return done;
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
  Result<void> multiply(const Product& product) override {
    const std::int64_t matrices = product.batch * product.m * product.n;
    if (matrices == 0) return {};
    if (product.k == 0)
      return zero(product.out, static_cast<std::size_t>(matrices) * dtype_size(product.dtype));
    if (auto done = enter(); !done) return done;
    auto done = products_->multiply(product);
    if (!done) note(done.error());
    return done;
  }
  Result<void> synchronise() override {
    if (auto done = enter_unrecorded("a wait"); !done) return done;
    for (CUstream stream : {ranks_, stream_})
      if (auto done = checked(driver_.synchronise(stream), "cuStreamSynchronize"); !done)
        return done;
    return {};
  }
  Result<bool> idle() override {
    if (auto done = enter_unrecorded("a wait"); !done) return done.error();
    for (CUstream stream : {ranks_, stream_}) {
      const CUresult result = driver_.query(stream);
      if (result == CUDA_ERROR_NOT_READY) return false;
      if (auto done = checked(result, "cuStreamQuery"); !done) return done.error();
    }
    return true;
  }

  Result<DeviceEvent> mark(DeviceStream which) override {
    if (auto done = enter_unrecorded("an event"); !done) return done.error();
    if (events_.empty()) {
      CUevent made = nullptr;
      if (auto done =
              checked(driver_.create_event(&made, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
          !done)
        return done.error();
      events_.push_back(made);
    }
    CUevent event = events_.back();
    if (auto done = checked(driver_.record_event(event, raw(which)), "cuEventRecord"); !done)
      return done.error();
    events_.pop_back();
    return DeviceEvent{reinterpret_cast<std::uint64_t>(event)};
  }
  Result<void> follow(DeviceStream which, DeviceEvent event) override {
    if (auto done = enter_unrecorded("an event"); !done) return done;
    return checked(driver_.wait_event(raw(which), raw(event), CU_EVENT_WAIT_DEFAULT),
                   "cuStreamWaitEvent");
  }
  // The event can be reused at once: streams that follow it still wait for its old mark.
  void release(DeviceEvent event) override { events_.push_back(raw(event)); }

  Result<void> begin_recording() override {
    if (auto done = enter_unrecorded("another recording"); !done) return done;
    // Relaxed: memory and modules are not part of a recording, and threads of libraries may make
    // any calls.
    auto done = checked(driver_.begin_capture(stream_, CU_STREAM_CAPTURE_MODE_RELAXED),
                        "cuStreamBeginCapture");
    recording_ = done.has_value();
    return done;
  }
  Result<DeviceRecording> end_recording() override {
    if (!recording_)
      return environment_error(fmt::format("there is no recording to end on {}", name_));
    (void)enter();  // an error while recording is noted in flaw_
    CUgraph graph = nullptr;
    (void)checked(driver_.end_capture(stream_, &graph), "cuStreamEndCapture");
    CUgraphExec exec = nullptr;
    if (!flaw_) (void)checked(driver_.instantiate(&exec, graph, 0), "cuGraphInstantiate");
    if (graph != nullptr) (void)checked(driver_.destroy_graph(graph), "cuGraphDestroy");
    recording_ = false;
    for (DeviceAddress memory : std::exchange(freed_late_, {})) (void)free(memory);
    const auto flaw = std::exchange(flaw_, std::nullopt);
    if (!flaw) return DeviceRecording{reinterpret_cast<std::uint64_t>(exec)};
    if (exec != nullptr) driver_.destroy_exec(exec);
    return *flaw;
  }
  Result<void> launch(DeviceRecording recording) override {
    if (auto done = enter_unrecorded("another recording"); !done) return done;
    return checked(driver_.launch_graph(raw(recording), stream_), "cuGraphLaunch");
  }
  void destroy(DeviceRecording recording) override {
    (void)enter();
    driver_.destroy_exec(raw(recording));
  }

 private:
  static CUdeviceptr raw(DeviceAddress at) { return static_cast<CUdeviceptr>(at); }
  static CUmodule raw(DeviceModule module) { return reinterpret_cast<CUmodule>(module); }
  static CUevent raw(DeviceEvent event) { return reinterpret_cast<CUevent>(event); }
  [[nodiscard]] CUstream raw(DeviceStream which) const {
    return which == DeviceStream::Work ? stream_ : ranks_;
  }
  static CUgraphExec raw(DeviceRecording recording) {
    return reinterpret_cast<CUgraphExec>(recording);
  }

  /// Notes the first error of a recording. An incomplete recording is never launched.
  void note(const Status& status) {
    if (recording_ && !flaw_) flaw_ = status;
  }
  Result<void> checked(CUresult result, const char* call) {
    auto done = driver_.answer(result, call, name_);
    if (!done) note(done.error());
    return done;
  }
  /// Makes the context current: the thread may be a new one, or have used another device.
  Result<void> enter() {
    CUcontext now = nullptr;
    if (auto done = checked(driver_.get_current(&now), "cuCtxGetCurrent"); !done) return done;
    if (now == context_) return {};
    return checked(driver_.set_current(context_), "cuCtxSetCurrent");
  }
  Result<void> enter_unrecorded(const char* what) {
    if (!recording_) return enter();
    const Status status =
        environment_error(fmt::format("{} has no place in a recording on {}", what, name_));
    note(status);
    return status;
  }

  Result<void> identify() {
    int major = 0, minor = 0, pools = 0;
    for (const auto& [value, which] :
         {std::pair{&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
          {&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
          {&multiprocessors_, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
          {&pools, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED}})
      if (auto done = checked(driver_.attribute(value, which, device_), "cuDeviceGetAttribute");
          !done)
        return done;
    CUuuid unit{};
    if (auto done = checked(driver_.unit(&unit, device_), "cuDeviceGetUuid"); !done) return done;
    unit_name_ = unit_text(unit);
    architecture_ = fmt::format("sm_{}{}", major, minor);
    name_ += fmt::format(" ({})", architecture_);
    if (pools != 0) return {};
    return environment_error(name_ + " has no stream-ordered memory; use another");
  }

  /// Sets how much freed memory the driver keeps for the next run. The driver releases the rest at
  /// the next wait for a stream. By default it keeps none.
  Result<void> keep_freed(cuuint64_t most) {
    CUmemoryPool pool = nullptr;
    if (auto done = checked(driver_.memory_pool(&pool, device_), "cuDeviceGetDefaultMemPool");
        !done)
      return done;
    return checked(driver_.set_pool(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &most),
                   "cuMemPoolSetAttribute");
  }

  Result<void> open_products() {
    auto taken = allocate(CublasMatmul::kWorkspaceBytes);
    if (!taken) return taken.error();
    if (!*taken)
      return environment_error(
          fmt::format("{} has no memory for the {} bytes that products work in", name_,
                      CublasMatmul::kWorkspaceBytes));
    workspace_ = **taken;
    auto opened = CublasMatmul::open({stream_, name_, architecture_, multiprocessors_, workspace_});
    if (!opened) return opened.error();
    products_ = *std::move(opened);
    return {};
  }

  CudaDriver driver_;
  int ordinal_ = 0, multiprocessors_ = 0;
  std::string name_, architecture_, unit_name_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr, ranks_ = nullptr, beside_ = nullptr;
  std::vector<CUevent> events_;  // released, to be used again
  bool shared_ = false;
  DeviceAddress workspace_{};
  std::unique_ptr<CublasMatmul> products_;
  // State of the recording under way:
  bool recording_ = false;
  std::optional<Status> flaw_;
  std::vector<DeviceAddress> freed_late_;
};

}  // namespace

Result<std::unique_ptr<Device>> open_cuda_device(CudaDeviceOptions options) {
  auto device = std::make_unique<CudaDevice>(options);
  if (auto done = device->open(); !done) return done.error();
  return device;
}

Result<int> cuda_device_count(Rank rank) {
  const std::string whose = fmt::format("rank {}'s CUDA driver", rank.value);
  CudaDriver driver;
  if (std::string why = driver.find(); !why.empty())
    return environment_error(fmt::format("rank {} has no CUDA device: {}", rank.value, why));
  if (auto done = driver.answer(driver.init(0), "cuInit", whose); !done) return done.error();
  int count = 0;
  if (auto done = driver.answer(driver.device_count(&count), "cuDeviceGetCount", whose); !done)
    return done.error();
  return count;
}

}  // namespace lockstep::worker
