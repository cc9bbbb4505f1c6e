// The kernels of a program, loaded on a device, and the memory for the outcomes of its checks. Used
// by the device backend.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include <lockstep/worker/compile/codegen/program.h>
#include <lockstep/worker/compile/device/device_pool.h>
#include <lockstep/worker/compile/run/run_values.h>

namespace lockstep::worker {

/// Single-threaded. Destroyed after all started kernels have ended and before the device.
class DeviceKernels {
 public:
  /// `program` outlives it.
  DeviceKernels(const Program& program, std::shared_ptr<Device> device)
      : program_(program), device_(std::move(device)) {}
  ~DeviceKernels();
  DeviceKernels(const DeviceKernels&) = delete;
  DeviceKernels& operator=(const DeviceKernels&) = delete;

  /// Errors: the device's; Environment if it has no memory for outcomes.
  [[nodiscard]] Result<void> load(std::span<const Bytes> units);
  /// Starts a Kernel step or a deferred check, with all its launches, on values in `buffers`.
  [[nodiscard]] Result<void> start(const Step& step, std::vector<DeviceAddress> buffers,
                                   std::span<const std::int64_t> numbers,
                                   const RunValues& values) const;
  /// Starts one kernel of the program. Its parameters are the buffers, then the numbers.
  [[nodiscard]] Result<void> start(std::uint32_t kernel, std::int64_t blocks,
                                   std::span<const DeviceAddress> buffers,
                                   std::span<const std::int64_t> numbers) const;
  /// Address of Program::outcomes. Never changes, so captured graphs may contain it.
  [[nodiscard]] DeviceAddress outcomes() const {
    return outcomes_ ? outcomes_->address() : DeviceAddress{};
  }

 private:
  const Program& program_;
  std::shared_ptr<Device> device_;
  std::vector<DeviceModule> modules_;
  std::vector<DeviceKernel> kernels_;
  std::unique_ptr<DeviceBlock> outcomes_;
};

}  // namespace lockstep::worker
