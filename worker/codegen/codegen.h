// Graph to program: plans, writes the kernels' text, shares equal ones, deals them out to compile
// units and lays out buffers. Pure; called by every rank on its own graph.
#pragma once

#include <lockstep/worker/codegen/program.h>

namespace lockstep::worker {

/// Errors: BadInput where the graph computes with a dtype that kernels have no arithmetic for.
[[nodiscard]] Result<Program> generate(Graph graph, Target target = Target::Host);

}  // namespace lockstep::worker
