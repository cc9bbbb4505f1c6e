#include "emulated_device.h"

#include <algorithm>
#include <cstring>

#include "compiled_graph.h"
#include <sys/mman.h>
#include <unistd.h>

#include <lockstep/worker/cuda_nest.h>
#include <lockstep/worker/products.h>
#include <lockstep/worker/scalar_text.h>

namespace lockstep::worker {
namespace {

/// As kernels of the host are made, but in a hurry.
Toolchain& quick_toolchain() {
#ifdef __SANITIZE_ADDRESS__
  return test_toolchain();
#else
  static const auto toolchain = [] {
    HostToolchain::Options options;
    options.flags.emplace_back("-O1");
    return HostToolchain::open(options).value();
  }();
  return *toolchain;
#endif
}

using Entry = int (*)(void* const*, const std::int64_t*, std::int64_t, bool);

Status failure(std::string what) { return Status{Code::Environment, std::move(what), {}, {}}; }

void* pointer(DeviceAddress at) { return reinterpret_cast<void*>(at); }

}  // namespace

Result<EmulatedProgram> build_emulated(Program program) {
  std::string text = "#include \"" CUDA_ON_HOST "\"\n" + kernel_prelude(Target::Cuda);
  for (Kernel& kernel : program.kernels) {
    kernel.unit = 0;
    const bool barriers = kernel.text.find("__syncthreads") != std::string::npos;
    text += kernel.text + "extern \"C\" int run_" + kernel.name +
            "(void* const* b, const long* n, long blocks, bool down) {\n"
            "  return cuda_on_host::launch(" +
            kernel.name + (barriers ? ", true" : ", false") + ", b, n, blocks, down);\n}\n";
  }
  program.units = {text};
  auto built = quick_toolchain().build(text);
  if (!built) return built.error();
  return EmulatedProgram{std::move(program), {*std::move(built)}};
}

EmulatedDevice::~EmulatedDevice() = default;

Result<void> EmulatedDevice::flawed(Status status) {
  if (recording_ && !flaw_) flaw_ = status;
  return status;
}

Result<void> EmulatedDevice::called(const char* call) {
  if (calls_++ != fail_at_) return {};
  return flawed(failure(std::string(call) + " failed on " + name_ + ": as it was told to"));
}

Result<void> EmulatedDevice::called_unrecorded(const char* call) {
  if (recording_)
    return flawed(failure(std::string(call) + " has no place in a recording on " + name_));
  return called(call);
}

Result<void> EmulatedDevice::within(DeviceAddress memory, std::size_t bytes) const {
  auto found = memory_.upper_bound(memory);
  if (found != memory_.begin()) {
    --found;
    const auto offset =
        static_cast<std::uint64_t>(memory) - static_cast<std::uint64_t>(found->first);
    if (offset + bytes <= found->second.size) return {};
  }
  return failure("memory that is not there was used on " + name_);
}

Result<std::optional<DeviceAddress>> EmulatedDevice::allocate(std::size_t bytes) {
  if (auto done = called("allocate"); !done) return done.error();
  if (live_ + bytes > capacity_) return std::optional<DeviceAddress>();
  // Filled with what is no number of any type, so that a kernel that reads before it writes shows.
  constexpr std::size_t kAlignment = 16;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t inside = (bytes + page - 1) / page * page;
  void* const all = mmap(nullptr, inside + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) return std::optional<DeviceAddress>();
  const std::shared_ptr<void> pages(all, [=](void* p) { munmap(p, inside + 2 * page); });
  std::byte* const begin = static_cast<std::byte*>(all) + page;
  if (mprotect(begin, inside, PROT_READ | PROT_WRITE) != 0) return std::optional<DeviceAddress>();
  std::memset(begin, 0xff, inside);
  const std::byte* const at = begin + (inside - bytes) / kAlignment * kAlignment;
  const DeviceAddress address{reinterpret_cast<std::uint64_t>(at)};
  memory_.emplace(address, Memory{pages, bytes});
  live_ += bytes;
  return std::optional(address);
}

Result<void> EmulatedDevice::free(DeviceAddress memory) {
  if (auto done = within(memory, 0); !done) return done;
  if (recording_) {
    freed_late_.push_back(memory);
    return {};
  }
  live_ -= memory_.at(memory).size;
  memory_.erase(memory);
  return {};
}

Result<void> EmulatedDevice::share() {
  shared_ = true;
  return called("share");
}

Result<void> EmulatedDevice::upload(DeviceAddress to, const void* from, std::size_t bytes) {
  if (auto done = called_unrecorded("upload"); !done) return done;
  ++uploads_;
  if (auto done = within(to, bytes); !done) return done;
  if (bytes > 0) std::memcpy(pointer(to), from, bytes);
  return {};
}

Result<void> EmulatedDevice::download(void* to, DeviceAddress from, std::size_t bytes) {
  if (auto done = called_unrecorded("download"); !done) return done;
  ++downloads_;
  if (bytes == 0) return {};
  if (auto done = within(from, bytes); !done) return done;
  std::memcpy(to, pointer(from), bytes);
  return {};
}

Result<DeviceModule> EmulatedDevice::load(const Bytes& object) {
  if (auto done = called("load"); !done) return done.error();
  auto loaded = LoadedObject::load(object);
  if (!loaded) return loaded.error();
  const DeviceModule module{reinterpret_cast<std::uint64_t>(loaded->get())};
  modules_.emplace(module, *std::move(loaded));
  return module;
}

Result<DeviceKernel> EmulatedDevice::kernel(DeviceModule module, const std::string& name) {
  if (auto done = called("kernel"); !done) return done.error();
  void* found = modules_.at(module)->symbol("run_" + name);
  if (found == nullptr) return failure("there is no kernel " + name + " on " + name_);
  return DeviceKernel{reinterpret_cast<std::uint64_t>(found)};
}

void EmulatedDevice::unload(DeviceModule module) { modules_.erase(module); }

Result<void> EmulatedDevice::start(const char* call, Work work) {
  if (auto done = called(call); !done) return done;
  if (!recording_) return work();
  recorded_.push_back(std::move(work));
  return {};
}

Result<void> EmulatedDevice::launch(DeviceKernel kernel, std::int64_t blocks, int threads,
                                    std::span<const DeviceAddress> buffers,
                                    std::span<const std::int64_t> numbers) {
  if (threads != kCudaBlock || blocks < 1) return flawed(failure("no such launch on " + name_));
  std::vector<void*> pointers;
  for (DeviceAddress at : buffers) pointers.push_back(pointer(at));
  starts_ += recording_ ? 0 : 1;
  return start("launch",
               [this, kernel, blocks, pointers,
                taken = std::vector(numbers.begin(), numbers.end())]() -> Result<void> {
                 for (void* at : pointers)
                   if (at != nullptr)
                     if (auto done = within(DeviceAddress{reinterpret_cast<std::uint64_t>(at)}, 0);
                         !done)
                       return done;
                 // Few blocks, so that loops have to stride: how many there are must not matter.
                 const std::int64_t few = std::min<std::int64_t>(blocks, 3);
                 const auto entry = reinterpret_cast<Entry>(kernel);
                 if (entry(pointers.data(), taken.data(), few, down_) == 0) return {};
                 return failure("threads of a block come to different barriers on " + name_);
               });
}

Result<void> EmulatedDevice::zero(DeviceAddress to, std::size_t bytes) {
  return start("zero", [=, this]() -> Result<void> {
    if (bytes == 0) return {};
    if (auto done = within(to, bytes); !done) return done;
    std::memset(pointer(to), 0, bytes);
    return {};
  });
}

Result<void> EmulatedDevice::copy(DeviceAddress to, DeviceAddress from, std::size_t bytes) {
  return start("copy", [=, this]() -> Result<void> {
    if (bytes == 0) return {};
    if (auto done = within(to, bytes); !done) return done;
    if (auto done = within(from, bytes); !done) return done;
    std::memcpy(pointer(to), pointer(from), bytes);
    return {};
  });
}

Result<void> EmulatedDevice::holds(DeviceAddress memory, std::int64_t elements, DType dtype) const {
  if (elements == 0) return {};
  return within(memory, static_cast<std::size_t>(elements) * dtype_size(dtype));
}

Result<void> EmulatedDevice::multiply(const Product& product) {
  starts_ += recording_ ? 0 : 1;
  return start("multiply", [this, p = product]() -> Result<void> {
    for (const auto& [at, elements] : {std::pair{p.a, p.batch * p.m * p.k},
                                       {p.b, p.batch * p.k * p.n},
                                       {p.out, p.batch * p.m * p.n}})
      if (auto done = holds(at, elements, p.dtype); !done) return done;
    worker::multiply(p.dtype, {pointer(p.a), p.transpose_a}, {pointer(p.b), p.transpose_b},
                     pointer(p.out), p.batch, p.m, p.k, p.n);
    return {};
  });
}

Result<void> EmulatedDevice::synchronise() { return called_unrecorded("synchronise"); }

Result<bool> EmulatedDevice::idle() {
  if (auto done = called_unrecorded("idle"); !done) return done.error();
  ++waits_;
  return true;
}

Result<void> EmulatedDevice::begin_recording() {
  auto done = called_unrecorded("begin_recording");
  recording_ = recording_ || done.has_value();
  return done;
}

Result<DeviceRecording> EmulatedDevice::end_recording() {
  if (!recording_) return failure("there is no recording to end on " + name_);
  (void)called("end_recording");
  recording_ = false;
  for (DeviceAddress memory : std::exchange(freed_late_, {})) (void)free(memory);
  auto work = std::exchange(recorded_, {});
  if (const auto flaw = std::exchange(flaw_, std::nullopt)) return *flaw;
  const DeviceRecording recording{next_recording_++};
  recordings_.emplace(recording, std::move(work));
  return recording;
}

Result<void> EmulatedDevice::launch(DeviceRecording recording) {
  if (auto done = called_unrecorded("launch of a recording"); !done) return done;
  ++starts_;
  for (const Work& work : recordings_.at(recording))
    if (auto done = work(); !done) return done;
  return {};
}

}  // namespace lockstep::worker
