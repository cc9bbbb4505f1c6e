// The comparison of sizes that a collective needs alike on all ranks of its group and of which
// nothing before the run says that they are: error_sync_points says where. Called by JointRun.
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

/// This rank's part, which every rank of the group takes before anything of the collective moves.
/// `values` are those of `sizes`; empty where this rank has failed, which is told at the status
/// round that follows. What differs is the failure of all that took part: `misfit`
/// (ConstraintViolation). Errors: the communicator's.
[[nodiscard]] Result<void> compare_sizes(collectives::Communicator& group, RunHost& host,
                                         const Graph& graph, const Node& node,
                                         std::span<const shapes::Expr> sizes,
                                         std::span<const std::int64_t> values,
                                         std::string_view label, std::optional<Status>& misfit);

}  // namespace lockstep::worker
