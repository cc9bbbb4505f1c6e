// Where the values of a program are while it runs, and what computes them: this processor or a
// device. The order of steps, and what happens when one fails, is the executable's.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include <lockstep/collectives/device_data.h>
#include <lockstep/worker/run/graph_collective.h>
#include <lockstep/worker/run/run_values.h>

namespace lockstep::worker {

class Device;

/// One program, one thread. A run is begin(), bind() for each input, then steps, then end(). Errors
/// of a device may be those of an earlier call.
class Backend {
 public:
  virtual ~Backend() = default;

  /// `host` stays until end().
  virtual void begin(RunHost& host) = 0;
  /// The value of an input. It is not written to, and let go of after the last step that reads it.
  virtual void bind(BufferId at, Array value) = 0;
  /// Memory for the value of `at`. An input with fewer elements gets zeros after its own. Errors:
  /// Environment, with what there is no memory for.
  virtual Result<void> make(BufferId at, std::int64_t elements) = 0;
  /// No step will read it.
  virtual void drop(BufferId at) = 0;

  /// Runs are captured as CUDA graphs from here on, if this backend can.
  virtual void capture(std::size_t limit) = 0;
  [[nodiscard]] virtual std::size_t captured_graphs() const = 0;
  /// Starts the steps from this one on as a captured graph; the step after them, or 0 where there
  /// is none and none can be made. What they make and read is made on the way.
  virtual Result<std::size_t> replay(std::size_t step, const RunValues& values) = 0;

  /// A Kernel step with its arguments, or a deferred check.
  virtual Result<void> launch(const Step& step, std::span<const std::int64_t> numbers,
                              const RunValues& values) = 0;
  /// A Matmul, SegmentMatmul or SegmentOuter step, its counts checked.
  virtual Result<void> multiply(const Step& step, std::span<const std::int64_t> numbers) = 0;
  /// The first `count` elements of an i64 value, once they are known; valid until the next call.
  virtual Result<std::span<const std::int64_t>> read(BufferId at, std::size_t count) = 0;

  /// A value that is there, while the run stays at this step.
  [[nodiscard]] virtual Array view(BufferId at, std::vector<std::int64_t> sizes) = 0;
  /// Copies `value` into the value of `at`, as the block of that number.
  virtual Result<void> place(BufferId at, std::int64_t block, const Array& value) = 0;

  /// What the run's checks on the device have found, Program::outcomes, once it is known; valid
  /// until the next call.
  virtual Result<std::span<const std::int64_t>> outcomes() = 0;

  /// Before a Collective step: all but the collective itself, with what it sends where it is sent
  /// from, so that what has failed is known while the rank can still take part with zeros. True:
  /// all that was started is done.
  virtual Result<bool> ready(const Step& step, const NodeBuffers& sizes) = 0;
  /// Starts a Collective step between devices. False: it must be staged through the host. Errors
  /// are the transport's; peers cannot be told of them.
  virtual Result<bool> start_collective(const Step& step, const NodeBuffers& sizes,
                                        std::string_view label) = 0;
  /// The same with zeros, of a rank that has failed: nothing else will be asked for but end().
  virtual Result<bool> start_collective_of_zeros(const Step& step, const NodeBuffers& sizes,
                                                 std::string_view label) = 0;
  /// Has `act` read the first value of a Collective step that is ready, and write the second, on
  /// the host. Errors: act's, or what became of its result on this rank.
  using OnHost = std::function<Result<void>(const NodeBuffers& buffers)>;
  virtual Result<void> on_host(const Step& step, const NodeBuffers& sizes, const OnHost& act) = 0;

  /// Waits for all that was started. Watched.
  virtual Result<void> finish() = 0;
  /// The value of an output, which belongs to the caller.
  virtual Result<Array> output(BufferId at, std::vector<std::int64_t> sizes) = 0;
  /// Nothing of the run is left but its outputs. Also after an error.
  virtual void end() = 0;
  /// Bytes of values within runs: what the host keeps between them, the most that the last run had
  /// on a device.
  [[nodiscard]] virtual std::size_t bytes() const = 0;
};

/// This processor: compiled functions, an arena, the BLAS. `program` is for the host and outlives
/// it. Keeps its memory between runs: in the steady state a run allocates its outputs only. Errors:
/// Environment (an object cannot be loaded here).
[[nodiscard]] Result<std::unique_ptr<Backend>> host_backend(const Program& program,
                                                            std::span<const Bytes> units);

/// A device: kernels on its stream, a pool of its memory, matrix products by its library. What the
/// host has to know is read back in its place in the order of steps. `program` is for CUDA and
/// outlives it; `units` are built for the device's architecture. An input that is on the device
/// already is used where it is, any other is uploaded at the step that first reads it. Collectives
/// go by the group's DeviceData where it has one (RunHost), else over the host: read back,
/// exchanged, uploaded. Errors: the device's.
[[nodiscard]] Result<std::unique_ptr<Backend>> device_backend(const Program& program,
                                                              std::span<const Bytes> units,
                                                              std::shared_ptr<Device> device);

}  // namespace lockstep::worker
