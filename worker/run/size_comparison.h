// Compares sizes that a collective needs equal on all ranks of its group if nothing before the run
// guarantees it: error_sync_points says where. Called by JointRun.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <lockstep/worker/graph/graph.h>
#include <lockstep/worker/run/run_host.h>

namespace lockstep::worker {

/// "sizes of all_reduce at moe.cpp:41"
[[nodiscard]] std::string size_comparison_label(const Node& node);

/// Compares this rank's sizes; called by every rank of the group before the collective. `values`
/// are those of `sizes`; empty if this rank has failed, which the status round that follows
/// reports. On a mismatch all ranks set `misfit` (ConstraintViolation). Errors: the communicator's.
[[nodiscard]] Result<void> compare_sizes(collectives::Communicator& group, RunHost& host,
                                         const Graph& graph, const Node& node,
                                         std::span<const shapes::Expr> sizes,
                                         std::span<const std::int64_t> values,
                                         std::string_view label, std::optional<Status>& misfit);

}  // namespace lockstep::worker
