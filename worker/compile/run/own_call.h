// Calls users' code on the host: the reference or the function of an own op, and the function of a
// host call.
#pragma once

#include <span>

#include <lockstep/worker/tensor/graph/array.h>
#include <lockstep/worker/tensor/graph/own_op.h>

namespace lockstep::worker {

/// Computes `node`, an own op or a host call, by its reference and writes the value to `result`,
/// which has the node's dtype and sizes. If the reference replaces the result array, its elements
/// are copied. Errors: RuntimeAssert with the user's line if the reference throws, if its result
/// has another dtype or sizes than the shape rule says, or if it returns the memory of an input
/// without claiming may_alias.
[[nodiscard]] Result<void> call_reference(const Node& node, std::span<const Array> inputs,
                                          Array& result);
/// Computes the node by its function if it has one, else like call_reference().
[[nodiscard]] Result<void> call_function(const Node& node, std::span<const Array> inputs,
                                         Array& result);

}  // namespace lockstep::worker
