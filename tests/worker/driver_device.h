// The first GPU of this machine through CUDA's driver interface, for tests. The driver is loaded
// when a device is opened, so that tests start where there is none.
#pragma once

#include "launched_graph.h"

namespace lockstep::worker {

struct DriverCalls;

class DriverDevice final : public TestDevice {
 public:
  /// Errors: Environment, with the call and the driver's own number, where there is no driver or no
  /// device.
  [[nodiscard]] static Result<std::unique_ptr<DriverDevice>> open();
  ~DriverDevice() override;
  /// "sm_90"
  [[nodiscard]] const std::string& architecture() const { return architecture_; }
  /// Before launches of its kernels. `units[i]` is the cubin of unit i.
  [[nodiscard]] Result<void> load(const Program& program, std::span<const Bytes> units);

  Result<void*> allocate(std::size_t bytes) override;
  Result<void> upload(void* to, const void* from, std::size_t bytes) override;
  Result<void> download(void* to, const void* from, std::size_t bytes) override;
  Result<void> launch(std::uint32_t kernel, std::span<void* const> buffers,
                      std::span<const std::int64_t> numbers, std::int64_t blocks) override;
  void free_all() override;

 private:
  DriverDevice();
  std::unique_ptr<DriverCalls> calls_;
  std::string architecture_;
  std::vector<void*> memory_;
};

}  // namespace lockstep::worker
