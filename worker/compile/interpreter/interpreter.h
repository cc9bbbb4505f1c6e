// The reference: runs a graph node by node with plain loops. The oracle of every test of the
// compiler, and the fallback of all ranks together. It knows no fusion and no BLAS.
#pragma once

#include <vector>

#include <lockstep/collectives/communicator.h>
#include <lockstep/worker/compile/run/run_host.h>
#include <lockstep/worker/tensor/graph/graph.h>

namespace lockstep::worker {

/// Arithmetic is in the type of the result: f64 in double, f32 in float (sums and products of
/// floats in the order of sums/sum_order.h), ints wrap; a division by integer zero is 0 and its
/// remainder is the dividend. NaN propagates through maximum, minimum, amax, amin and argmax. f16
/// and bf16 are moved as bytes, and casts to them round once, to nearest, ties to even.
///
/// Returns the outputs in order; an output that is an input shares its storage. A rank that fails
/// computes nothing more, and takes part in collectives with zeros until all ranks know
/// (error_sync_points.h). Errors: the joint error of all ranks; BadInput, before anything runs, for
/// missing inputs; the communicator's.
[[nodiscard]] Result<std::vector<Array>> interpret(const Graph& graph, const Inputs& inputs,
                                                   collectives::Communicator& communicator,
                                                   RunHost& host);

}  // namespace lockstep::worker
