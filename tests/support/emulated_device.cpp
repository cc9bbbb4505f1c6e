#include "emulated_device.h"

#include <algorithm>
#include <cstring>

#include "compiled_graph.h"
#include <sys/mman.h>
#include <unistd.h>

#include <lockstep/worker/compile/codegen/cuda_nest.h>
#include <lockstep/worker/compile/codegen/prelude.h>
#include <lockstep/worker/compile/run/matmul.h>

namespace lockstep::worker {
namespace {

/// Compiles like the host's kernels, but faster.
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

namespace {
void put_into_one_unit(Program& program) {
  for (Kernel& kernel : program.kernels) kernel.unit = 0;
  for (Program& body : program.bodies) put_into_one_unit(body);
}
}  // namespace

Result<EmulatedProgram> build_emulated(Program program) {
  put_into_one_unit(program);
  std::string text = "#include \"" CUDA_ON_HOST "\"\n" + kernel_prelude(Target::Cuda);
  for (const Kernel& kernel : program.kernels) {
    const bool barriers = kernel.text.find("__syncthreads") != std::string::npos;
    text += kernel.text + "extern \"C\" int run_" + kernel.name +
            "(void* const* b, const long* n, long blocks, bool down) {\n"
            "  return cuda_on_host::launch(" +
            kernel.name + (barriers ? ", true" : ", false") +
            ", b, n, blocks, down);\n}\n"
            "extern \"C\" const char* accesses_" +
            kernel.name +
            "() {\n"
            "  static constexpr auto all = cuda_on_host::accesses(" +
            kernel.name + ");\n  return all.data();\n}\n";
  }
  program.units = {text};
  auto built = quick_toolchain().build(text);
  if (!built) return built.error();
  return EmulatedProgram{std::move(program), {*std::move(built)}};
}

EmulatedDevice::EmulatedDevice() {
  for (int stream = 0; stream < 2; ++stream) (void)order_.add_stream();
}
EmulatedDevice::~EmulatedDevice() = default;

Result<void> EmulatedDevice::put(DeviceStream stream, std::span<const Access> accesses) {
  const std::string found = order_.put(static_cast<int>(stream), accesses);
  if (found.empty()) return {};
  if (disorder_.empty()) disorder_ = found + " (0: Work, 1: Ranks)";
  return failure(disorder_);
}

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

std::size_t EmulatedDevice::left_at(DeviceAddress memory) const {
  auto found = memory_.upper_bound(memory);
  if (found == memory_.begin()) return 0;
  --found;
  const auto offset = static_cast<std::uint64_t>(memory) - static_cast<std::uint64_t>(found->first);
  return offset < found->second.size ? found->second.size - offset : 0;
}

Result<void> EmulatedDevice::within(DeviceAddress memory, std::size_t bytes) const {
  if (const std::size_t left = left_at(memory); left > 0 && bytes <= left) return {};
  return failure("memory that is not there was used on " + name_);
}

Result<std::optional<DeviceAddress>> EmulatedDevice::allocate(std::size_t bytes) {
  if (auto done = called("allocate"); !done) return done.error();
  if (live_ + bytes > capacity_) return std::optional<DeviceAddress>();
  // Filled with bytes that are NaN in every float type, so that a read before a write shows.
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
  order_.made(0, static_cast<std::uint64_t>(address), bytes);
  live_ += bytes;
  return std::optional(address);
}

Result<void> EmulatedDevice::free(DeviceAddress memory) {
  if (auto done = within(memory, 0); !done) return done;
  if (recording_) {
    freed_late_.push_back(memory);
    return {};
  }
  const std::size_t bytes = memory_.at(memory).size;
  auto done = put(DeviceStream::Work, access(memory, bytes, true));
  live_ -= bytes;
  memory_.erase(memory);
  return done;
}

Result<void> EmulatedDevice::share() {
  shared_ = true;
  return called("share");
}

Result<void> EmulatedDevice::upload(DeviceAddress to, const void* from, std::size_t bytes) {
  if (auto done = called_unrecorded("upload"); !done) return done;
  ++uploads_;
  if (bytes == 0) return {};
  if (auto done = within(to, bytes); !done) return done;
  if (auto done = put(DeviceStream::Work, access(to, bytes, true)); !done) return done;
  std::memcpy(pointer(to), from, bytes);
  return {};
}

Result<void> EmulatedDevice::download(void* to, DeviceAddress from, std::size_t bytes) {
  if (auto done = called_unrecorded("download"); !done) return done;
  ++downloads_;
  if (auto done = wait(); !done) return done;
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
  void* accesses = modules_.at(module)->symbol("accesses_" + name);
  if (found == nullptr || accesses == nullptr)
    return failure("there is no kernel " + name + " on " + name_);
  const DeviceKernel kernel{reinterpret_cast<std::uint64_t>(found)};
  accesses_[kernel] = reinterpret_cast<const char* (*)()>(accesses)();
  return kernel;
}

void EmulatedDevice::unload(DeviceModule module) { modules_.erase(module); }

Result<void> EmulatedDevice::start(const char* call, std::vector<Access> accesses, Body body) {
  if (auto done = called(call); !done) return done;
  const Work work{std::move(accesses), std::move(body)};
  if (!recording_) return start(work);
  recorded_.push_back(work);
  return {};
}

Result<void> EmulatedDevice::start(const Work& work) {
  if (auto done = put(DeviceStream::Work, work.accesses); !done) return done;
  return work.body();
}

Result<void> EmulatedDevice::launch(DeviceKernel kernel, std::int64_t blocks, int threads,
                                    std::span<const DeviceAddress> buffers,
                                    std::span<const std::int64_t> numbers) {
  if (threads != kCudaBlock || blocks < 1) return flawed(failure("no such launch on " + name_));
  std::vector<void*> pointers;
  for (DeviceAddress at : buffers) pointers.push_back(pointer(at));
  // A kernel does not say how much of a buffer it uses, so all of it counts.
  std::vector<Access> accesses;
  for (std::size_t i = 0; i < buffers.size(); ++i)
    accesses.push_back(
        access(buffers[i], left_at(buffers[i]), accesses_.at(kernel).at(i) == 'w')[0]);
  count_start();
  return start("launch", std::move(accesses),
               [this, kernel, blocks, pointers,
                taken = std::vector(numbers.begin(), numbers.end())]() -> Result<void> {
                 for (void* at : pointers)
                   if (at != nullptr)
                     if (auto done = within(DeviceAddress{reinterpret_cast<std::uint64_t>(at)}, 0);
                         !done)
                       return done;
                 // Few blocks, so that loops have to stride: results must not depend on the number
                 // of blocks.
                 const std::int64_t few = std::min<std::int64_t>(blocks, 3);
                 const auto entry = reinterpret_cast<Entry>(kernel);
                 if (entry(pointers.data(), taken.data(), few, down_) == 0) return {};
                 return failure("threads of a block come to different barriers on " + name_);
               });
}

Result<void> EmulatedDevice::zero(DeviceAddress to, std::size_t bytes) {
  return start("zero", access(to, bytes, true), [=, this]() -> Result<void> {
    if (bytes == 0) return {};
    if (auto done = within(to, bytes); !done) return done;
    std::memset(pointer(to), 0, bytes);
    return {};
  });
}

Result<void> EmulatedDevice::copy(DeviceAddress to, DeviceAddress from, std::size_t bytes) {
  return start("copy", {access(to, bytes, true)[0], access(from, bytes, false)[0]},
               [=, this]() -> Result<void> {
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
  const std::pair<DeviceAddress, std::int64_t> values[] = {
      {product.a, product.batch * product.m * product.k},
      {product.b, product.batch * product.k * product.n},
      {product.out, product.batch * product.m * product.n}};
  std::vector<Access> accesses;
  for (const auto& [at, elements] : values)
    accesses.push_back(access(at, static_cast<std::size_t>(elements) * dtype_size(product.dtype),
                              at == product.out)[0]);
  count_start();
  return start("multiply", std::move(accesses), [=, this, p = product]() -> Result<void> {
    for (const auto& [at, elements] : values)
      if (auto done = holds(at, elements, p.dtype); !done) return done;
    Threads alone;
    worker::multiply(alone, p.dtype, {pointer(p.a), p.transpose_a}, {pointer(p.b), p.transpose_b},
                     pointer(p.out), p.batch, p.m, p.k, p.n);
    return {};
  });
}

Result<void> EmulatedDevice::synchronise() {
  if (auto done = called_unrecorded("synchronise"); !done) return done;
  return wait();
}

Result<bool> EmulatedDevice::idle() {
  if (auto done = called_unrecorded("idle"); !done) return done.error();
  ++waits_;
  if (auto done = wait(); !done) return done.error();
  return true;
}

Result<void> EmulatedDevice::wait() {
  deliver(exchanged_);
  for (int stream = 0; stream < 2; ++stream) order_.waited_for(stream);
  if (disorder_.empty()) return {};
  return failure(disorder_);
}

Result<void> EmulatedDevice::exchange(const collectives::Collective& collective, int size,
                                      const Exchange& exchange) {
  const auto extent = collectives::CollectiveExtent::of(collective, size);
  const auto bytes = [&](std::int64_t elements) {
    return static_cast<std::size_t>(elements) * dtype_size(collective.dtype);
  };
  const DeviceAddress from{reinterpret_cast<std::uint64_t>(collective.send)},
      to{reinterpret_cast<std::uint64_t>(collective.receive)};
  const std::vector<Access> accesses{access(from, bytes(extent.send), false)[0],
                                     access(to, bytes(extent.receive), true)[0]};
  for (const Access& access : accesses)
    if (access.bytes > 0)
      if (auto done = within(DeviceAddress{access.at}, access.bytes); !done) return done;
  if (auto done = put(DeviceStream::Ranks, accesses); !done) return done;
  // Until the result is delivered, the memory holds NaN.
  Late late{++exchanged_, to, {}};
  const auto* const there = static_cast<const std::byte*>(collective.receive);
  if (there != nullptr) late.result.assign(there, there + bytes(extent.receive));
  collectives::Collective elsewhere = collective;
  elsewhere.receive = late.result.data();
  // Collectives on this stream see the results of earlier ones.
  for (const Late& before : late_)
    if (before.to == from) elsewhere.send = before.result.data();
  if (auto done = exchange(elsewhere); !done) return done;
  if (!late.result.empty()) std::memset(collective.receive, 0xff, late.result.size());
  late_.push_back(std::move(late));
  return {};
}

void EmulatedDevice::deliver(std::uint64_t until) {
  while (!late_.empty() && late_.front().number <= until) {
    const Late& first = late_.front();
    if (!within(first.to, first.result.size()) && !first.result.empty())
      disorder_ = "a collective writes memory that is not there";
    else if (!first.result.empty())
      std::memcpy(pointer(first.to), first.result.data(), first.result.size());
    late_.pop_front();
  }
}

Result<DeviceEvent> EmulatedDevice::mark(DeviceStream which) {
  if (auto done = called_unrecorded("mark"); !done) return done.error();
  const DeviceEvent event{next_event_++};
  events_[event] = {order_.now(static_cast<int>(which)),
                    which == DeviceStream::Ranks ? exchanged_ : 0};
  return event;
}

Result<void> EmulatedDevice::follow(DeviceStream which, DeviceEvent event) {
  if (auto done = called_unrecorded("follow"); !done) return done;
  const Event& marked = events_.at(event);
  order_.follow(static_cast<int>(which), marked.time);
  if (which == DeviceStream::Work) deliver(marked.exchanged);
  return {};
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
  count_start();
  for (const Work& work : recordings_.at(recording))
    if (auto done = start(work); !done) return done;
  return {};
}

}  // namespace lockstep::worker
