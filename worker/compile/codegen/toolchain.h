// Interface of what compiles kernel text into a loadable object. Implemented by the host's compiler
// and by NVRTC, and in tests by a compiler that fails.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/base/status.h>
#include <lockstep/shapes/expr/fingerprint.h>

namespace lockstep::worker {

/// The language of kernels. The graph, its plan and the arithmetic of one element are the same for
/// all targets; only the text around them differs.
enum class Target : std::uint8_t { Host, Cuda };

/// Cost of building so far.
struct BuildCost {
  int compiles = 0;
  std::chrono::microseconds cpu{0};  // time of the compiler and its children
};

/// Used by one thread at a time, but for build() of the host's compiler: several may call it at
/// once.
class Toolchain {
 public:
  virtual ~Toolchain() = default;
  /// Everything besides the text that determines the output: compiler, version, target, flags.
  [[nodiscard]] virtual const std::string& identity() const = 0;
  /// Fingerprint of the identity. Ranks with equal fingerprints may use each other's objects.
  [[nodiscard]] shapes::Fingerprint fingerprint() const { return shapes::fingerprint(identity()); }
  /// Returns the object's bytes. Errors: CompileError (the text is wrong: it fails on every rank),
  /// Environment (this rank cannot build: no compiler, killed, no space, time limit; another rank
  /// may succeed).
  [[nodiscard]] virtual Result<Bytes> build(std::string_view text) = 0;
  [[nodiscard]] virtual BuildCost cost() const = 0;
};

}  // namespace lockstep::worker
