// Programs for CUDA, run step by step in the plainest way: every buffer at once, every kernel
// waited for, products on the host. The device is a real one or the emulated one below; what it
// computes is compared with the interpreter. No runtime: a run checks no indices and takes no part
// in collectives.
#pragma once

#include <memory>
#include <span>

#include <lockstep/worker/program.h>
#include <lockstep/worker/run_host.h>

namespace lockstep::worker {

/// Where kernels run. Memory is at multiples of 256 bytes.
class TestDevice {
 public:
  virtual ~TestDevice() = default;
  virtual Result<void*> allocate(std::size_t bytes) = 0;
  virtual Result<void> upload(void* to, const void* from, std::size_t bytes) = 0;
  virtual Result<void> download(void* to, const void* from, std::size_t bytes) = 0;
  virtual Result<void> launch(std::uint32_t kernel, std::span<void* const> buffers,
                              std::span<const std::int64_t> numbers, std::int64_t blocks) = 0;
  /// All that was allocated.
  virtual void free_all() = 0;
};

/// Requires a program for CUDA without collectives and host syncs, and inputs that fit.
[[nodiscard]] Result<std::vector<Array>> run_launched(const Program& program, TestDevice& device,
                                                      const Inputs& inputs);

/// This processor in place of a GPU (cuda_on_host.h): what it shows is that the text is right, not
/// that a GPU runs it.
class EmulatedDevice final : public TestDevice {
 public:
  /// Errors: as Toolchain::build.
  [[nodiscard]] static Result<std::unique_ptr<EmulatedDevice>> load(const Program& program);
  ~EmulatedDevice() override;
  Result<void*> allocate(std::size_t bytes) override;
  Result<void> upload(void* to, const void* from, std::size_t bytes) override;
  Result<void> download(void* to, const void* from, std::size_t bytes) override;
  Result<void> launch(std::uint32_t kernel, std::span<void* const> buffers,
                      std::span<const std::int64_t> numbers, std::int64_t blocks) override;
  void free_all() override;
  /// Threads and blocks in falling order from now on.
  void set_down(bool down) { down_ = down; }

 private:
  struct Loaded;
  EmulatedDevice();
  std::unique_ptr<Loaded> loaded_;
  bool down_ = false;
};

}  // namespace lockstep::worker
