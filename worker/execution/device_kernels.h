// The kernels of a program, loaded on a device, and where its checks leave what they find. Used by
// the device backend.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include <lockstep/worker/codegen/program.h>
#include <lockstep/worker/device/device_pool.h>
#include <lockstep/worker/run/run_values.h>

namespace lockstep::worker {

/// One thread. Kernels that were started have ended when this goes, which is before the device.
class DeviceKernels {
 public:
  /// `program` outlives it.
  DeviceKernels(const Program& program, std::shared_ptr<Device> device)
      : program_(program), device_(std::move(device)) {}
  ~DeviceKernels();
  DeviceKernels(const DeviceKernels&) = delete;
  DeviceKernels& operator=(const DeviceKernels&) = delete;

  /// Errors: the device's; Environment where it has no memory for outcomes.
  [[nodiscard]] Result<void> load(std::span<const Bytes> units);
  /// Starts a Kernel step or a deferred check: all launches that it takes, on values in `buffers`.
  [[nodiscard]] Result<void> start(const Step& step, std::vector<DeviceAddress> buffers,
                                   std::span<const std::int64_t> numbers,
                                   const RunValues& values) const;
  /// Of Program::outcomes. Stays where it is, so recordings may have it in them.
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
