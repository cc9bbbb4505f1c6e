// A graph built for a device and run there: kernel by kernel without a runtime, or whole by the
// executable as a job of one rank would.
#pragma once

#include <memory>

#include "gpu_models.h"

#include <lockstep/worker/compile/codegen/toolchain.h>
#include <lockstep/worker/compile/device/device.h>
#include <lockstep/worker/compile/execution/executable.h>

namespace lockstep::bench {

/// Builds every unit of the graph's program for that architecture.
struct Built {
  worker::Program program;
  std::vector<Bytes> units;
};
[[nodiscard]] Result<Built> build_for(const worker::Graph& graph, worker::Toolchain& toolchain);

/// The kernels of a program on memory that stays: nothing but launches. One thread; the device
/// outlives it.
class BareKernels {
 public:
  /// Errors: BadInput for a program with steps that are not kernels; the device's.
  [[nodiscard]] static Result<std::unique_ptr<BareKernels>> load(const Model& model, Built built,
                                                                 worker::Device& device);
  ~BareKernels();
  BareKernels(const BareKernels&) = delete;
  BareKernels& operator=(const BareKernels&) = delete;

  /// All of them once, in order, and does not wait.
  [[nodiscard]] Result<void> launch();
  [[nodiscard]] std::size_t count() const { return calls_.size(); }

 private:
  struct Call {
    worker::DeviceKernel kernel;
    std::int64_t blocks = 0;
    int threads = 0;
    std::vector<worker::DeviceAddress> buffers;
    std::vector<std::int64_t> numbers;
  };
  explicit BareKernels(worker::Device& device) : device_(device) {}
  [[nodiscard]] Result<void> prepare(const Model& model, const Built& built);

  worker::Device& device_;
  std::vector<worker::DeviceModule> modules_;
  std::vector<worker::DeviceAddress> memory_;
  std::vector<Call> calls_;
};

/// A model's steps on a device, one after the other, what one leaves taken by the next. Collectives
/// are those of one rank: copies on the device. One thread.
class SteppedModel {
 public:
  [[nodiscard]] static Result<std::unique_ptr<SteppedModel>> load(
      Model model, Built built, std::shared_ptr<worker::Device> device);
  ~SteppedModel();
  SteppedModel(const SteppedModel&) = delete;
  SteppedModel& operator=(const SteppedModel&) = delete;

  /// Steps are recorded from now on.
  void record() { executable_->capture({}); }
  [[nodiscard]] Result<void> step();
  /// Of the last output after the last step, read back.
  [[nodiscard]] double last_value() const;
  /// Most memory of the device that the values of a step had.
  [[nodiscard]] std::size_t bytes() const { return executable_->bytes(); }

 private:
  class Alone;
  SteppedModel(Model model, std::shared_ptr<worker::Device> device);
  Model model_;
  std::unique_ptr<Alone> alone_;
  SystemClock clock_;
  std::unique_ptr<worker::Executable> executable_;
  worker::Array last_;
};

}  // namespace lockstep::bench
