// An accelerator as a program sees it: memory, copies, kernels, a stream on which all of it runs in
// order, and a second stream for collectives between devices. Implemented by CUDA's driver
// interface (cuda_device.h), and in tests by a device that runs kernels on this processor. Programs
// run through this interface only.
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
/// A loaded object, and a kernel in such an object.
enum class DeviceModule : std::uint64_t {};
enum class DeviceKernel : std::uint64_t {};
/// Work on one stream runs in order. Work on two streams runs at the same time or in any order,
/// unless follow() orders it.
enum class DeviceStream : std::uint8_t {
  Work,   // all work started through Device
  Ranks,  // collectives between devices, started by libraries
};
/// Marks the work that was on a stream when mark() was called.
enum class DeviceEvent : std::uint64_t {};
/// Recorded work, which can be launched any number of times.
enum class DeviceRecording : std::uint64_t {};

/// out [batch, m, n] = a [batch, m, k] b [batch, k, n], all row-major floats. f16 and bf16 are
/// summed in f32 and rounded once. Empty operands are allowed: k == 0 gives zeros. `out` overlaps
/// neither operand.
struct Product {
  DType dtype = DType::F32;
  DeviceAddress a{}, b{}, out{};
  bool transpose_a = false, transpose_b = false;  // rows and columns are stored swapped
  std::int64_t batch = 1, m = 0, k = 0, n = 0;
};

/// Used from any thread, by one at a time. Work is done in the order of the calls, most of it after
/// they have returned; errors of such work are returned by a later call. Every error is one
/// sentence that names the call, the rank and the device (Environment).
class Device {
 public:
  virtual ~Device() = default;
  /// "rank 2's CUDA device 0 (sm_90)"
  [[nodiscard]] virtual const std::string& name() const = 0;
  /// The architecture that kernels are built for: "sm_90".
  [[nodiscard]] virtual const std::string& architecture() const = 0;
  [[nodiscard]] virtual int ordinal() const = 0;
  /// Name of the physical device, the same in every process: ranks with equal names share it.
  [[nodiscard]] virtual const std::string& unit_name() const = 0;
  /// Everything besides the operands that determines the bits of a product: ranks with equal values
  /// compute equal products.
  [[nodiscard]] virtual const std::string& product_identity() const = 0;
  /// The stream as a CUstream, for libraries that start work on it themselves.
  [[nodiscard]] virtual void* stream(DeviceStream which) const = 0;

  /// Allocates uninitialised memory, aligned to at least 16 bytes, as kernels require. Returns
  /// nullopt if the device has too little memory left. Requires bytes > 0.
  [[nodiscard]] virtual Result<std::optional<DeviceAddress>> allocate(std::size_t bytes) = 0;
  /// Frees memory once all work started on the stream Work so far is done. Requires that Work
  /// follows any collective on Ranks that uses the memory (follow()).
  virtual Result<void> free(DeviceAddress memory) = 0;
  /// Lets other processes use freed memory: from now on the next synchronise() or download()
  /// releases it. Without this call the driver keeps it for this process.
  virtual Result<void> share() = 0;
  [[nodiscard]] virtual bool shared() const = 0;
  /// `from` must not change until the next download() or synchronise() has returned.
  virtual Result<void> upload(DeviceAddress to, const void* from, std::size_t bytes) = 0;
  /// Waits for all work on both streams, then for the copy.
  virtual Result<void> download(void* to, DeviceAddress from, std::size_t bytes) = 0;
  virtual Result<void> zero(DeviceAddress to, std::size_t bytes) = 0;
  /// Copies within the device's memory.
  virtual Result<void> copy(DeviceAddress to, DeviceAddress from, std::size_t bytes) = 0;

  /// Loads an object that a toolchain for this architecture built.
  [[nodiscard]] virtual Result<DeviceModule> load(const Bytes& object) = 0;
  [[nodiscard]] virtual Result<DeviceKernel> kernel(DeviceModule module,
                                                    const std::string& name) = 0;
  /// Requires that no kernel of the module is running.
  virtual void unload(DeviceModule module) = 0;
  /// Starts a kernel. Its parameters are the buffers, then the numbers.
  virtual Result<void> launch(DeviceKernel kernel, std::int64_t blocks, int threads,
                              std::span<const DeviceAddress> buffers,
                              std::span<const std::int64_t> numbers) = 0;
  virtual Result<void> multiply(const Product& product) = 0;
  /// Waits for all work on both streams.
  virtual Result<void> synchronise() = 0;
  /// True if all work on both streams is done. Never waits.
  [[nodiscard]] virtual Result<bool> idle() = 0;

  /// Marks the work that is on the stream now. The caller releases the event.
  [[nodiscard]] virtual Result<DeviceEvent> mark(DeviceStream which) = 0;
  /// Makes work put on the stream `which` from now on run after the work that `event` marks. The
  /// event may be released right after this call.
  virtual Result<void> follow(DeviceStream which, DeviceEvent event) = 0;
  virtual void release(DeviceEvent event) = 0;

  /// Begins a recording. Until end_recording(), launches, products, calls of zero() and copy(), and
  /// the work of libraries on the stream Work are recorded instead of done. Memory is not recorded:
  /// it is allocated at once, and freed when the recording ends. Uploads, downloads, waits and
  /// events are errors. Requires that no recording is under way.
  virtual Result<void> begin_recording() = 0;
  /// Ends the recording, also on error. The caller destroys the result, before the device. Errors:
  /// the first error of a call since begin_recording(), or that no recording is under way.
  [[nodiscard]] virtual Result<DeviceRecording> end_recording() = 0;
  /// Does the recorded work in its order. The memory that it uses must still be allocated.
  virtual Result<void> launch(DeviceRecording recording) = 0;
  virtual void destroy(DeviceRecording recording) = 0;
};

}  // namespace lockstep::worker
