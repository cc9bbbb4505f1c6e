// Building one compile unit of a program: from the artifact store if it has it, else by the
// toolchain, and then into the store. What a rank does with the units that fall to it.
#pragma once

#include <lockstep/coordinator/store/artifact_store.h>
#include <lockstep/worker/codegen/program.h>

namespace lockstep::worker {

struct BuiltUnit {
  Bytes object;  // verified, or just made
  bool reused = false;
  /// The object could not be kept for others (full or read-only disk); it can still be used.
  std::optional<Status> not_stored;
};

/// `store` may be null. Errors: CompileError, Environment, as Toolchain::build.
[[nodiscard]] Result<BuiltUnit> build_unit(const Program& program, int unit, Toolchain& toolchain,
                                           coordinator::ArtifactStore* store);

}  // namespace lockstep::worker
