// Compiles CUDA text to a cubin for one architecture, by NVRTC, in this process. Needs the
// toolkit's library, which is looked for when a toolchain is opened, but neither a driver nor a
// GPU. In a build without CUDA (LOCKSTEP_WITH_CUDA=OFF, or no toolkit was found) opening fails.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <lockstep/collectives/base/rank.h>
#include <lockstep/worker/compile/codegen/toolchain.h>

namespace lockstep::worker {

struct NvrtcOptions {
  std::string architecture;  // "sm_90"
  Rank rank{0};              // named in errors
  /// Flags besides the architecture. No -use_fast_math: NaN and infinities keep their meaning.
  std::vector<std::string> flags{"--std=c++17",
                                 "--fmad=false"};  // sums have the same bits as on the host
};

/// Opens NVRTC. Its identity is version, architecture and flags, so artifacts of another version,
/// architecture or flags are never used. Errors: Environment (built without CUDA, no library, an
/// architecture that this NVRTC does not know). Errors of build() name call, rank, architecture and
/// the first error of the log.
[[nodiscard]] Result<std::unique_ptr<Toolchain>> open_nvrtc(NvrtcOptions options);

}  // namespace lockstep::worker
