// This processor as a machine: compiled functions, an arena, the BLAS. Made by the executable.
#pragma once

#include <memory>

#include <lockstep/worker/execution/machine.h>

namespace lockstep::worker {

/// `program` is for the host and outlives it. Keeps its memory between runs: in the steady state a
/// run allocates its outputs only. Errors: Environment (an object cannot be loaded here).
[[nodiscard]] Result<std::unique_ptr<Machine>> host_machine(const Program& program,
                                                            std::span<const Bytes> units);

}  // namespace lockstep::worker
