#include <utility>

#include <fmt/format.h>

#include <lockstep/worker/compile/codegen/cuda_nest.h>
#include <lockstep/worker/compile/execution/device_kernels.h>

namespace lockstep::worker {

DeviceKernels::~DeviceKernels() {
  for (DeviceModule module : modules_) device_->unload(module);
}

Result<void> DeviceKernels::load(std::span<const Bytes> units) {
  for (const Bytes& unit : units) {
    auto module = device_->load(unit);
    if (!module) return module.error();
    modules_.push_back(*module);
  }
  for (const Kernel& kernel : program_.kernels) {
    auto found = device_->kernel(modules_[kernel.unit], kernel.name);
    if (!found) return found.error();
    kernels_.push_back(*found);
  }
  if (program_.outcomes == 0) return {};
  const std::size_t bytes = program_.outcomes * sizeof(std::int64_t);
  auto memory = device_->allocate(bytes);
  if (!memory) return memory.error();
  if (!*memory)
    return environment_error(
        fmt::format("{} has no memory for {} bytes that frame {} needs besides its "
                    "values",
                    device_->name(), bytes, program_.graph.name));
  outcomes_ = std::make_unique<DeviceBlock>(device_, **memory);
  return {};
}

Result<void> DeviceKernels::start(const Step& step, std::vector<DeviceAddress> buffers,
                                  std::span<const std::int64_t> numbers,
                                  const RunValues& values) const {
  if (step.deferred()) buffers.push_back(moved(outcomes(), step.outcome * sizeof(std::int64_t)));
  const DeviceKernel kernel = kernels_[step.kernel];
  const std::int64_t blocks = values[step.launch->blocks];
  const int threads = step.launch->threads;
  if (!step.launch->merged) return device_->launch(kernel, blocks, threads, buffers, numbers);
  std::vector<std::int64_t> with_width(numbers.begin(), numbers.end());
  with_width.push_back(0);
  for (std::int64_t width = 1; width < values[*step.launch->merged]; width *= 4)
    for (const std::int64_t now : {width, 2 * width}) {
      with_width.back() = now;
      if (auto done = device_->launch(kernel, blocks, threads, buffers, with_width); !done)
        return done;
      std::swap(buffers[buffers.size() - 1], buffers[buffers.size() - 2]);
    }
  return {};
}

Result<void> DeviceKernels::start(std::uint32_t kernel, std::int64_t blocks,
                                  std::span<const DeviceAddress> buffers,
                                  std::span<const std::int64_t> numbers) const {
  return device_->launch(kernels_[kernel], blocks, kCudaBlock, buffers, numbers);
}

}  // namespace lockstep::worker
