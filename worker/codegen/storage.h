// The first half of planning: which values need memory.
#pragma once

#include <lockstep/worker/codegen/plan.h>

namespace lockstep::worker {

/// Fills live, stored, storage and flat. A value gets memory where an op needs it there (products,
/// collectives, outputs), where it cannot be computed per element (reductions), and where computing
/// it again for each use would cost more than storing it.
void choose_storage(const Graph& graph, Plan& plan);

/// Stored because an op or an output needs it in memory, not only to save work.
[[nodiscard]] std::vector<bool> required_in_memory(const Graph& graph, const Plan& plan);

}  // namespace lockstep::worker
