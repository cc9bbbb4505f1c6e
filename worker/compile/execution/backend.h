// Holds the values of a running program and computes them, on this processor or on a device. The
// executable decides the order of steps and handles failures.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include <lockstep/collectives/device_data.h>
#include <lockstep/worker/compile/run/graph_collective.h>
#include <lockstep/worker/compile/run/run_values.h>

namespace lockstep::worker {

class Device;

/// For one program. Single-threaded. A run is begin(), bind() for each input, then steps, then
/// end(). A call on a device may return the error of an earlier call.
class Backend {
 public:
  virtual ~Backend() = default;

  /// Begins a run. `host` must live until end().
  virtual void begin(RunHost& host) = 0;
  /// Sets the value of an input, which is never written to, and is released after the last step
  /// that reads it.
  virtual void bind(BufferId at, Array value) = 0;
  /// Allocates memory for the value of `at`. An input with fewer elements is padded with zeros.
  /// Errors: Environment, naming the value that has no memory.
  virtual Result<void> make(BufferId at, std::int64_t elements) = 0;
  /// Releases a value that no later step reads.
  virtual void drop(BufferId at) = 0;

  /// Captures runs as CUDA graphs from now on, if this backend can.
  virtual void capture(std::size_t limit) = 0;
  [[nodiscard]] virtual std::size_t captured_graphs() const = 0;
  /// Starts the segment of steps that begins at `step` as a captured graph, and allocates memory
  /// for what the segment reads and makes. Returns the first step after the segment, or 0 if no
  /// segment begins there, or it has no graph and none can be made.
  virtual Result<std::size_t> replay(std::size_t step, const RunValues& values) = 0;

  /// Starts a Kernel step with its arguments, or a deferred check.
  virtual Result<void> launch(const Step& step, std::span<const std::int64_t> numbers,
                              const RunValues& values) = 0;
  /// Runs the Kernel steps of a chain, which begins with the first of `steps`, on the host.
  virtual Result<void> launch_chain(std::span<const Step> steps, const RunValues& values) = 0;
  /// Starts a Matmul, SegmentMatmul, SegmentOuter or Attention step, whose counts have been
  /// checked.
  virtual Result<void> multiply(const Step& step, std::span<const std::int64_t> numbers) = 0;
  /// Waits for an i64 value and returns its first `count` elements; valid until the next call.
  virtual Result<std::span<const std::int64_t>> read(BufferId at, std::size_t count) = 0;

  /// Returns a view of an existing value, valid while the run stays at this step.
  [[nodiscard]] virtual Array view(BufferId at, std::vector<std::int64_t> sizes) = 0;
  /// Copies `value` into block number `block` of the value of `at`.
  virtual Result<void> place(BufferId at, std::int64_t block, const Array& value) = 0;

  /// Waits for the run's checks on the device and returns their outcomes (Program::outcomes); valid
  /// until the next call.
  virtual Result<std::span<const std::int64_t>> outcomes() = 0;

  /// Prepares a Collective step: does all but the collective itself and puts its operand into the
  /// send buffer, so that failures are known while the rank can still take part with zeros. Returns
  /// true if all started work is done.
  virtual Result<bool> ready(const Step& step, const NodeBuffers& sizes) = 0;
  /// Starts a Collective step between devices. False: it must be staged through the host. Errors
  /// are the transport's; they cannot be reported to peers.
  virtual Result<bool> start_collective(const Step& step, const NodeBuffers& sizes,
                                        std::string_view label) = 0;
  /// Like start_collective(), but sends zeros: for a rank that has failed. May drop the run's
  /// values: only further calls of this function and end() may follow.
  virtual Result<bool> start_collective_of_zeros(const Step& step, const NodeBuffers& sizes,
                                                 std::string_view label) = 0;
  /// Calls `act` on the host with the values of a HostCall step, whose lengths are `bytes`. `act`
  /// reads all of them but the last and writes the last. Errors: act's, or those of copying its
  /// result.
  using Call = std::function<Result<void>(std::span<void* const> values)>;
  virtual Result<void> call(const Step& step, std::span<const std::size_t> bytes,
                            const Call& act) = 0;
  /// Calls `act` on the host for a Collective step that is ready; `act` reads the operand and
  /// writes the result. Errors: act's, or those of copying its result.
  using OnHost = std::function<Result<void>(const NodeBuffers& buffers)>;
  virtual Result<void> on_host(const Step& step, const NodeBuffers& sizes, const OnHost& act) = 0;

  /// Waits for all started work, with the watch armed.
  virtual Result<void> finish() = 0;
  /// Returns the value of an output, which belongs to the caller.
  virtual Result<Array> output(BufferId at, std::vector<std::int64_t> sizes) = 0;
  /// Ends the run, also after an error: releases everything but its outputs.
  virtual void end() = 0;
  /// Bytes of values within runs: on the host what is kept between runs, on a device the most that
  /// the last run used at one time.
  [[nodiscard]] virtual std::size_t bytes() const = 0;
};

/// The backend of this processor: compiled functions, an arena, the BLAS. `program` is for the host
/// and outlives it. Keeps its memory between runs: in the steady state a run allocates only its
/// outputs. Errors: Environment (an object cannot be loaded here).
[[nodiscard]] Result<std::unique_ptr<Backend>> host_backend(const Program& program,
                                                            std::span<const Bytes> units);

/// The backend of a device: kernels on its stream, a pool of its memory, matrix products by its
/// library. A value that the host needs is read back at the step that needs it. `program` is for
/// CUDA and outlives it; `units` are built for the device's architecture. An input that is on the
/// device already is used in place, any other is uploaded at the step that first reads it.
/// Collectives use the group's DeviceData if it has one (RunHost), else go over the host: read
/// back, exchanged, uploaded. Errors: the device's.
[[nodiscard]] Result<std::unique_ptr<Backend>> device_backend(const Program& program,
                                                              std::span<const Bytes> units,
                                                              std::shared_ptr<Device> device);

}  // namespace lockstep::worker
