// A program for CUDA that is built and loaded on a device, and its runs there. What Executable is
// for the host; called by whoever has a device. It refuses programs with products or collectives,
// which have no kernels yet: nothing is computed elsewhere in silence.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include <lockstep/worker/device_pool.h>
#include <lockstep/worker/program.h>
#include <lockstep/worker/run_host.h>

namespace lockstep::worker {

/// A tensor on a device: contiguous, row-major. Copies share its memory, which nothing writes to
/// any more. The device outlives it.
struct DeviceArray {
  DType dtype = DType::F32;
  std::vector<std::int64_t> sizes;
  std::shared_ptr<const DeviceBlock> memory;  // null: no elements
};

[[nodiscard]] Result<Array> to_host(const DeviceArray& array, Device& device);

/// One thread.
class DeviceProgram {
 public:
  /// `units[i]` is the object of unit i, built for the device's architecture; there are as many as
  /// the program has. `device` outlives the program. Errors: BadInput for a step without a kernel
  /// (the first, with the user's line); the device's.
  [[nodiscard]] static Result<std::unique_ptr<DeviceProgram>> load(Program program,
                                                                   std::span<const Bytes> units,
                                                                   Device& device);
  ~DeviceProgram();
  DeviceProgram(const DeviceProgram&) = delete;
  DeviceProgram& operator=(const DeviceProgram&) = delete;

  /// Uploads the inputs and returns the outputs, which belong to the caller. An input is uploaded
  /// at the step that first reads it; a value's memory is free for others after the last step that
  /// reads it. What the host has to know (tolist, item, indices and counts that may be wrong) is
  /// read back in its place in the order of steps. On return all of it is done, and of the run's
  /// memory only the outputs are left, or nothing after an error; inputs are as they were.
  /// Errors: as Executable::run, and the device's; all that fails on one rank is told to the others
  /// where the program has a settle point. No memory: Environment, with what was asked for.
  [[nodiscard]] Result<std::vector<DeviceArray>> run(const Inputs& inputs, RunHost& host);
  [[nodiscard]] const Program& program() const;
  /// Most memory of the device that the last run had at one time, in bytes.
  [[nodiscard]] std::size_t peak_bytes() const;

 private:
  class Loaded;
  explicit DeviceProgram(std::unique_ptr<Loaded> loaded);
  std::unique_ptr<Loaded> loaded_;
};

}  // namespace lockstep::worker
