// The reference: runs a graph node by node with plain loops. The oracle of every test of the
// compiler, and what all ranks fall back to together. It knows no fusion and no BLAS.
#pragma once

#include <vector>

#include <lockstep/collectives/communicator.h>
#include <lockstep/worker/graph/graph.h>
#include <lockstep/worker/run/run_host.h>

namespace lockstep::worker {

/// Arithmetic is in the type of the result: f64 in double, f32 in float (sums too, in row-major
/// order), ints wrap; a division by integer zero is 0 and its remainder is the dividend. NaN goes
/// through maximum, minimum, amax, amin and argmax. f16 and bf16 are moved as they lie, and casts
/// to them round once, to nearest, ties to even.
///
/// Returns the outputs in order; one that is an input shares its storage. A rank on which something
/// fails computes nothing more, and takes part in collectives with zeros until all ranks are told
/// (error_sync_points.h). Errors: the joint error of all ranks; BadInput, before anything ran, for
/// missing inputs; the communicator's.
[[nodiscard]] Result<std::vector<Array>> interpret(const Graph& graph, const Inputs& inputs,
                                                   collectives::Communicator& communicator,
                                                   RunHost& host);

}  // namespace lockstep::worker
