// A built and loaded program, and its runs: the code that a training step spends its time in.
// Called by the job for every hit.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/collectives/communicator.h>
#include <lockstep/worker/compile/codegen/program.h>
#include <lockstep/worker/compile/device/device.h>
#include <lockstep/worker/compile/execution/capture_options.h>
#include <lockstep/worker/compile/run/run_host.h>

namespace lockstep::worker {

/// The time of all runs so far. `total` also contains binding and checks. On a device, `kernels`
/// and `products` are only the time to start them, and `total` contains the waits for the device.
struct RunTimes {
  std::uint64_t runs = 0;
  Duration total{0}, kernels{0}, products{0}, collectives{0}, settling{0};
};

/// Single-threaded.
class Executable {
 public:
  /// `units[i]` is the object of unit i: verified bytes from the artifact store, or fresh from a
  /// toolchain. `clock` outlives it. `device` runs a program for CUDA; null for a host program.
  /// Errors: Environment (an object cannot be loaded here); the device's.
  [[nodiscard]] static Result<std::unique_ptr<Executable>> load(
      Program program, std::span<const Bytes> units, const Clock& clock,
      std::shared_ptr<Device> device = nullptr);
  ~Executable();
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  /// Returns the outputs in the order of the graph, on the device if there is one; they belong to
  /// the caller. An output that is an input shares its storage. Each input is released after its
  /// last reader; from RunHost::bound() on the run holds the only reference, unless the caller kept
  /// one. On return no work of the run is in flight. A rank that fails (also because an input has
  /// other sizes than the entry) computes nothing more, and takes part in collectives with zeros
  /// until all ranks know (error_sync_points.h). If it cannot take part (a bug, or no memory), the
  /// run ends at once, and the job with it. Errors: the joint error of all ranks; BadInput, before
  /// anything runs, for inputs that are missing or of another dtype; Environment if there is no
  /// memory; the communicator's.
  [[nodiscard]] Result<std::vector<Array>> run(const Inputs& inputs,
                                               collectives::Communicator& communicator,
                                               RunHost& host);
  /// Captures runs on a device as CUDA graphs from now on; on the host this does nothing.
  void capture(CaptureOptions options);
  /// Number of captured graphs.
  [[nodiscard]] std::size_t captured_graphs() const;
  [[nodiscard]] const Program& program() const;
  [[nodiscard]] const RunTimes& time() const;
  /// Bytes of the values of runs: on the host what is kept between runs, on a device the most that
  /// the last run used at one time.
  [[nodiscard]] std::size_t bytes() const;

 private:
  class Loaded;
  explicit Executable(std::unique_ptr<Loaded> loaded);
  std::unique_ptr<Loaded> loaded_;
};

}  // namespace lockstep::worker
