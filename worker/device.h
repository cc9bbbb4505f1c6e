// An accelerator as a program sees it: memory, copies, kernels, one stream on which all of it
// happens in order. Implemented by CUDA's driver interface (cuda_device.h), and in tests by a
// device that runs kernels on this processor. Whoever runs a program talks to this only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/base/status.h>

namespace lockstep::worker {

/// Memory of a device. 0: memory of no bytes, which need not be allocated.
enum class DeviceAddress : std::uint64_t {};
/// A loaded object, and a function of one.
enum class DeviceModule : std::uint64_t {};
enum class DeviceKernel : std::uint64_t {};

/// One thread. Work is done in the order of the calls, most of it after they have returned: what
/// goes wrong then is the error of a later call. Every error is one sentence that names the call,
/// the rank and the device (Environment).
class Device {
 public:
  virtual ~Device() = default;
  /// "rank 2's CUDA device 0 (sm_90)"
  [[nodiscard]] virtual const std::string& name() const = 0;
  /// What kernels have to be built for: "sm_90".
  [[nodiscard]] virtual const std::string& architecture() const = 0;

  /// At a multiple of 16 bytes at least, as kernels take it, uninitialised. nullopt if the device
  /// has not that much left. Requires bytes > 0.
  [[nodiscard]] virtual Result<std::optional<DeviceAddress>> allocate(std::size_t bytes) = 0;
  /// Once what was started before has been done with it.
  virtual Result<void> free(DeviceAddress memory) = 0;
  /// `from` stays as it is until the next download() or synchronise() has returned.
  virtual Result<void> upload(DeviceAddress to, const void* from, std::size_t bytes) = 0;
  /// Waits for everything that was started, then for the copy.
  virtual Result<void> download(void* to, DeviceAddress from, std::size_t bytes) = 0;

  /// `object` is what a toolchain for this architecture built.
  [[nodiscard]] virtual Result<DeviceModule> load(const Bytes& object) = 0;
  [[nodiscard]] virtual Result<DeviceKernel> kernel(DeviceModule module,
                                                    const std::string& name) = 0;
  /// Its kernels are no longer running.
  virtual void unload(DeviceModule module) = 0;
  /// Parameters: the buffers, then the numbers.
  virtual Result<void> launch(DeviceKernel kernel, std::int64_t blocks, int threads,
                              std::span<const DeviceAddress> buffers,
                              std::span<const std::int64_t> numbers) = 0;
  /// Waits for everything that was started.
  virtual Result<void> synchronise() = 0;
};

}  // namespace lockstep::worker
