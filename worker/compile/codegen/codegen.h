// From graph to program: plans, writes the text of kernels, shares equal kernels, divides them
// among compile units and lays out buffers. Pure; every rank calls it on its own graph.
#pragma once

#include <lockstep/worker/compile/codegen/program.h>

namespace lockstep::worker {

/// Errors: BadInput if the graph has a product of a dtype that is not float.
[[nodiscard]] Result<Program> generate(Graph graph, Target target = Target::Host);

}  // namespace lockstep::worker
