// What users bring, called on the host: the reference or the function of an own op, and the
// function of a host call.
#pragma once

#include <span>

#include <lockstep/worker/graph/array.h>
#include <lockstep/worker/graph/own_op.h>

namespace lockstep::worker {

/// Writes the value of `node`, an own op or a host call, to `result`, which has its dtype and
/// sizes: by the reference. What that puts in the place of `result` is copied into it. Errors:
/// RuntimeAssert, with the user's line: what it threw; a result of other dtype or sizes than the
/// shape rule gave; an input given as the result without the claim.
[[nodiscard]] Result<void> call_reference(const Node& node, std::span<const Array> inputs,
                                          Array& result);
/// The same by the function, where there is one.
[[nodiscard]] Result<void> call_function(const Node& node, std::span<const Array> inputs,
                                         Array& result);

}  // namespace lockstep::worker
