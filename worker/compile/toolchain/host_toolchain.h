// The compiler of this host, run as a child process. Source, object and messages are files in
// memory, so a build never leaves anything on disk.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include <lockstep/worker/compile/codegen/toolchain.h>

namespace lockstep::worker {

class HostToolchain final : public Toolchain {
 public:
  struct Options {
    std::string compiler = "c++";  // LOCKSTEP_CXX
    /// -O2: loops that gain from vectors have a pragma, so -O3 only takes longer. No -ffast-math:
    /// NaN, infinities and the order of sums keep their meaning (reductions in inner loops that may
    /// be reordered have a pragma). No contraction: sums are equal on processors with and without
    /// fused multiply-add.
    std::vector<std::string> flags{
        "-std=c++20",       "-O2",     "-march=native", "-fno-math-errno", "-fno-trapping-math",
        "-fopenmp-simd",    "-fwrapv", "-shared",       "-fPIC",           "-pipe",
        "-ffp-contract=off"};
    std::vector<std::string> libraries{"-lmvec", "-lm"};
    std::chrono::milliseconds limit{120000};
  };

  /// Asks the compiler for its version and the meaning of -march=native here. Errors: Environment.
  [[nodiscard]] static Result<std::unique_ptr<HostToolchain>> open(Options options);

  [[nodiscard]] const std::string& identity() const override { return identity_; }
  [[nodiscard]] Result<Bytes> build(std::string_view text) override;
  [[nodiscard]] BuildCost cost() const override { return cost_; }

 private:
  explicit HostToolchain(Options options) : options_(std::move(options)) {}
  Options options_;
  std::string identity_;
  std::mutex counting_;
  BuildCost cost_;
};

}  // namespace lockstep::worker
