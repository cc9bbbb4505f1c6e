// Lines for the log about values that the host reads back while a graph runs. Called by the tracer
// at the end of a trace.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <lockstep/worker/tensor/trace/mask_rewrite.h>

namespace lockstep::worker {

/// One line per count of a mask, taken from `of_masks`, and one per other host sync: what is read
/// back, where, and the first line that needs it. Ordered by symbol; lists without elements come
/// last.
[[nodiscard]] std::vector<std::string> read_back_lines(
    const Recording& recording, const std::vector<shapes::DeferredAssert>& asserts,
    const std::vector<UniformSize>& uniform, std::map<shapes::Symbol, std::string> of_masks);

}  // namespace lockstep::worker
