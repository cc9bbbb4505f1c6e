// What turns kernel text into a loadable object: the host's compiler, or NVRTC. Tests put a compiler
// that fails in its place.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/base/status.h>
#include <lockstep/shapes/expr/fingerprint.h>

namespace lockstep::worker {

/// What kernels are written for. The graph, its plan and the arithmetic of one element are the same
/// for all; only the text around them differs.
enum class Target : std::uint8_t { Host, Cuda };

/// What building has cost so far.
struct BuildCost {
  int compiles = 0;
  std::chrono::microseconds cpu{0};  // of the compiler and its children
};

/// One thread.
class Toolchain {
 public:
  virtual ~Toolchain() = default;
  /// Everything that its output depends on besides the text: compiler, version, target, flags.
  [[nodiscard]] virtual const std::string& identity() const = 0;
  /// Of the identity: ranks with equal ones may use each other's objects.
  [[nodiscard]] shapes::Fingerprint fingerprint() const { return shapes::fingerprint(identity()); }
  /// The object's bytes. Errors: CompileError (the text is wrong: it fails on every rank),
  /// Environment (this rank cannot build: no compiler, killed, no space, time limit; another may).
  [[nodiscard]] virtual Result<Bytes> build(std::string_view text) = 0;
  [[nodiscard]] virtual BuildCost cost() const = 0;
};

}  // namespace lockstep::worker
