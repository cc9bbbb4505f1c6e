#include "launched_graph.h"

#include <algorithm>
#include <cstring>

#include "compiled_graph.h"

#include <lockstep/worker/array.h>
#include <lockstep/worker/loaded_object.h>
#include <lockstep/worker/products.h>
#include <lockstep/worker/run_values.h>
#include <lockstep/worker/scalar_text.h>

namespace lockstep::worker {
namespace {

/// One run.
class Run {
 public:
  Run(const Program& program, TestDevice& device)
      : program_(program), device_(device), values_(program), pointers_(program.buffers.size()) {}

  Result<std::vector<Array>> operator()(const Inputs& inputs) {
    if (auto bound = values_.bind(inputs); !bound) return bound.error();
    for (BufferId at = 0; at < pointers_.size(); ++at) {
      auto memory = device_.allocate(bytes(at));
      if (!memory) return memory.error();
      pointers_[at] = *memory;
    }
    for (const Program::Input& input : program_.inputs) {
      const Array& array = inputs.at(program_.graph.nodes[input.node].text);
      if (auto done = device_.upload(pointers_[input.buffer], array.data(), array.bytes()); !done)
        return done.error();
    }
    for (const Step& step : program_.steps)
      if (auto done = execute(step); !done) return done.error();
    std::vector<Array> out;
    for (const Program::Output& output : program_.outputs) {
      auto made = fetch(output.buffer);
      if (!made) return made.error();
      values_.gather(output.sizes, numbers_);
      out.push_back(made->reshaped(numbers_));
    }
    return out;
  }

 private:
  std::size_t bytes(BufferId at) const {
    const Buffer& buffer = program_.buffers[at];
    return static_cast<std::size_t>(values_[buffer.elements]) * dtype_size(buffer.dtype);
  }
  Result<Array> fetch(BufferId at) {
    Array out(program_.buffers[at].dtype, {values_[program_.buffers[at].elements]});
    auto done = device_.download(out.data(), pointers_[at], out.bytes());
    if (!done) return done.error();
    return out;
  }

  Result<void> execute(const Step& step) {
    values_.gather(step.args, numbers_);
    switch (step.kind) {
      case Step::Kind::Kernel:
        return kernel(step);
      case Step::Kind::Matmul:
      case Step::Kind::SegmentMatmul:
      case Step::Kind::SegmentOuter:
        return product(step);
      default:
        return {};
    }
  }

  Result<void> kernel(const Step& step) {
    std::vector<void*> buffers;
    for (BufferId at : step.buffers) buffers.push_back(pointers_[at]);
    const std::int64_t blocks = values_[step.launch->blocks];
    if (!step.launch->merged) return device_.launch(step.kernel, buffers, numbers_, blocks);
    for (std::int64_t width = 1; width < values_[*step.launch->merged]; width *= 4)
      for (const std::int64_t now : {width, 2 * width}) {
        std::vector<std::int64_t> numbers = numbers_;
        numbers.push_back(now);
        if (auto done = device_.launch(step.kernel, buffers, numbers, blocks); !done) return done;
        std::swap(buffers[buffers.size() - 1], buffers[buffers.size() - 2]);
      }
    return {};
  }

  Result<void> product(const Step& step) {
    std::vector<Array> at;
    for (BufferId buffer : step.buffers) {
      auto array = fetch(buffer);
      if (!array) return array.error();
      at.push_back(*std::move(array));
    }
    const DType dtype = program_.graph.nodes[step.node].meta.dtype;
    const auto& n = numbers_;
    Array& out = at.back();
    if (step.kind == Step::Kind::Matmul) {
      multiply(dtype, {at[0].data(), step.transpose_a}, {at[1].data(), step.transpose_b},
               out.data(), n[0], n[1], n[2], n[3]);
    } else {
      const std::span counts(at[2].data_as<std::int64_t>(), static_cast<std::size_t>(n[3]));
      if (step.kind == Step::Kind::SegmentMatmul)
        multiply_segments(dtype, at[0].data(), {at[1].data(), step.transpose_b}, counts, out.data(),
                          n[1], n[2]);
      else
        multiply_segments_outer(dtype, at[0].data(), at[1].data(), counts, out.data(), n[1], n[2]);
    }
    return device_.upload(pointers_[step.buffers.back()], out.data(), out.bytes());
  }

  const Program& program_;
  TestDevice& device_;
  RunValues values_;
  std::vector<void*> pointers_;
  std::vector<std::int64_t> numbers_;
};

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

}  // namespace

Result<std::vector<Array>> run_launched(const Program& program, TestDevice& device,
                                        const Inputs& inputs) {
  auto out = Run(program, device)(inputs);
  device.free_all();
  return out;
}

struct EmulatedDevice::Loaded {
  std::unique_ptr<LoadedObject> object;
  std::vector<Entry> entries;
  std::vector<std::unique_ptr<std::byte[]>> memory;
};

EmulatedDevice::EmulatedDevice() : loaded_(std::make_unique<Loaded>()) {}

Result<std::unique_ptr<EmulatedDevice>> EmulatedDevice::load(const Program& program) {
  // One unit: the compiler reads the shim once.
  std::string text = "#include \"" CUDA_ON_HOST "\"\n" + kernel_prelude(Target::Cuda);
  for (const Kernel& kernel : program.kernels) {
    const bool barriers = kernel.text.find("__syncthreads") != std::string::npos;
    text += kernel.text + "extern \"C\" int run_" + kernel.name +
            "(void* const* b, const long* n, long blocks, bool down) {\n"
            "  return cuda_on_host::launch(" +
            kernel.name + (barriers ? ", true" : ", false") + ", b, n, blocks, down);\n}\n";
  }
  auto built = quick_toolchain().build(text);
  if (!built) return built.error();
  auto object = LoadedObject::load(*built);
  if (!object) return object.error();
  std::unique_ptr<EmulatedDevice> device(new EmulatedDevice);
  device->loaded_->object = *std::move(object);
  for (const Kernel& kernel : program.kernels) {
    void* found = device->loaded_->object->symbol("run_" + kernel.name);
    if (found == nullptr) return Status{Code::Internal, "no kernel " + kernel.name, {}, {}};
    device->loaded_->entries.push_back(reinterpret_cast<Entry>(found));
  }
  return device;
}

EmulatedDevice::~EmulatedDevice() = default;

Result<void*> EmulatedDevice::allocate(std::size_t bytes) {
  // Filled with what is no number of any type, so that a kernel that reads before it writes shows.
  constexpr std::size_t kAlignment = 256;
  auto memory = std::make_unique<std::byte[]>(bytes + kAlignment);
  std::memset(memory.get(), 0xff, bytes + kAlignment);
  void* at = memory.get();
  std::size_t space = bytes + kAlignment;
  std::align(kAlignment, bytes, at, space);
  loaded_->memory.push_back(std::move(memory));
  return at;
}

Result<void> EmulatedDevice::upload(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
  return {};
}

Result<void> EmulatedDevice::download(void* to, const void* from, std::size_t bytes) {
  return upload(to, from, bytes);
}

Result<void> EmulatedDevice::launch(std::uint32_t kernel, std::span<void* const> buffers,
                                    std::span<const std::int64_t> numbers, std::int64_t blocks) {
  // Few blocks, so that loops have to stride: how many there are must not matter.
  const std::int64_t few = std::min<std::int64_t>(blocks, 3);
  if (loaded_->entries[kernel](buffers.data(), numbers.data(), few, down_) == 0) return {};
  return Status{Code::Internal, "threads of a block come to different barriers", {}, {}};
}

void EmulatedDevice::free_all() { loaded_->memory.clear(); }

}  // namespace lockstep::worker
