// An accelerator as a program sees it: memory, copies, kernels, one stream on which all of it
// happens in order, and one beside it for collectives between devices. Implemented by CUDA's driver
// interface (cuda_device.h), and in tests by a device that runs kernels on this processor. Whoever
// runs a program talks to this only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/base/dtype.h>
#include <lockstep/collectives/base/status.h>

namespace lockstep::worker {

/// Memory of a device. 0: memory of no bytes, which need not be allocated.
enum class DeviceAddress : std::uint64_t {};
[[nodiscard]] constexpr DeviceAddress moved(DeviceAddress at, std::size_t bytes) {
  return DeviceAddress{static_cast<std::uint64_t>(at) + bytes};
}
/// A loaded object, and a function of one.
enum class DeviceModule : std::uint64_t {};
enum class DeviceKernel : std::uint64_t {};
/// What is on one stream is done in order; what is on two at the same time or in any order, where
/// neither follows the other.
enum class DeviceStream : std::uint8_t {
  Work,   // all that is started here
  Ranks,  // collectives between devices, which libraries put there
};
/// All that was on a stream at some time.
enum class DeviceEvent : std::uint64_t {};
/// Work that was recorded, to be done as often as one likes.
enum class DeviceRecording : std::uint64_t {};

/// out [batch, m, n] = a [batch, m, k] b [batch, k, n], all row-major, of floats; f16 and bf16
/// are added up in f32 and rounded once. Empty operands are fine: k == 0 gives zeros. `out`
/// overlaps neither operand.
struct Product {
  DType dtype = DType::F32;
  DeviceAddress a{}, b{}, out{};
  bool transpose_a = false, transpose_b = false;  // each matrix lies with rows and columns swapped
  std::int64_t batch = 1, m = 0, k = 0, n = 0;
};

/// One thread at a time, whichever. Work is done in the order of the calls, most of it after they
/// have returned: what goes wrong then is the error of a later call. Every error is one sentence
/// that names the call, the rank and the device (Environment).
class Device {
 public:
  virtual ~Device() = default;
  /// "rank 2's CUDA device 0 (sm_90)"
  [[nodiscard]] virtual const std::string& name() const = 0;
  /// What kernels have to be built for: "sm_90".
  [[nodiscard]] virtual const std::string& architecture() const = 0;
  [[nodiscard]] virtual int ordinal() const = 0;
  /// Of the physical device, the same in every process: ranks with equal ones share it.
  [[nodiscard]] virtual const std::string& unit_name() const = 0;
  /// All that the bits of a product are a function of, besides its operands: a group whose ranks
  /// have equal ones computes alike.
  [[nodiscard]] virtual const std::string& product_identity() const = 0;
  /// For libraries that put work there themselves: a CUstream.
  [[nodiscard]] virtual void* stream(DeviceStream which) const = 0;

  /// At a multiple of 16 bytes at least, as kernels take it, uninitialised. nullopt if the device
  /// has not that much left. Requires bytes > 0.
  [[nodiscard]] virtual Result<std::optional<DeviceAddress>> allocate(std::size_t bytes) = 0;
  /// Once what was started before has been done with it. Requires that Work follows what uses it on
  /// Ranks.
  virtual Result<void> free(DeviceAddress memory) = 0;
  /// Other processes use the device too: from now on what is freed is theirs once the next
  /// synchronise() or download() has returned. Until this is called it is kept for this process.
  virtual Result<void> share() = 0;
  [[nodiscard]] virtual bool shared() const = 0;
  /// `from` stays as it is until the next download() or synchronise() has returned.
  virtual Result<void> upload(DeviceAddress to, const void* from, std::size_t bytes) = 0;
  /// Waits for everything on both streams, then for the copy.
  virtual Result<void> download(void* to, DeviceAddress from, std::size_t bytes) = 0;
  virtual Result<void> zero(DeviceAddress to, std::size_t bytes) = 0;
  /// From memory of the device to other memory of it.
  virtual Result<void> copy(DeviceAddress to, DeviceAddress from, std::size_t bytes) = 0;

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
  virtual Result<void> multiply(const Product& product) = 0;
  /// Waits for everything on both streams.
  virtual Result<void> synchronise() = 0;
  /// Whether everything on both streams is done. Never waits.
  [[nodiscard]] virtual Result<bool> idle() = 0;

  /// What is on that stream now. The caller's to release.
  [[nodiscard]] virtual Result<DeviceEvent> mark(DeviceStream which) = 0;
  /// What is put on that stream from here on is done after it. The event may be released then.
  virtual Result<void> follow(DeviceStream which, DeviceEvent event) = 0;
  virtual void release(DeviceEvent event) = 0;

  /// From here to the end launches, products, zeros, copy()s and what libraries put on Work are
  /// recorded and not done. Memory is no part of that: it is there at once, and what is freed goes
  /// at the end. Uploads, downloads, waits and events are errors. Requires that nothing is being
  /// recorded.
  virtual Result<void> begin_recording() = 0;
  /// The caller's to destroy, before the device. Errors: the first one since the beginning, if any
  /// call failed; nothing was being recorded. Whatever the outcome, nothing is any more.
  [[nodiscard]] virtual Result<DeviceRecording> end_recording() = 0;
  /// All of it, in the order in which it was recorded, on memory that still has to be there.
  virtual Result<void> launch(DeviceRecording recording) = 0;
  virtual void destroy(DeviceRecording recording) = 0;
};

}  // namespace lockstep::worker
