// Compares values of a collective between the ranks of its group, where the graph does not
// guarantee that they match (error_sync_points.h): sizes, and the split lists of an all_to_all.
// Called by JointRun.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <lockstep/worker/compile/run/run_host.h>
#include <lockstep/worker/tensor/graph/graph.h>

namespace lockstep::worker {

/// "sizes of all_reduce at moe.cpp:41"
[[nodiscard]] std::string size_comparison_label(const Node& node);

/// Compares this rank's sizes with its peers' sizes. Called by every rank of the group before the
/// collective. `values` are the values of `sizes`, or empty if this rank has failed: the next
/// status round reports the failure. On a mismatch, sets `misfit` on all ranks of the group
/// (ConstraintViolation). Errors: the communicator's.
[[nodiscard]] Result<void> compare_sizes(collectives::Communicator& group, RunHost& host,
                                         const Graph& graph, const Node& node,
                                         std::span<const shapes::Expr> sizes,
                                         std::span<const std::int64_t> values,
                                         std::string_view label, std::optional<Status>& misfit);

/// "row counts of all_to_all_single at moe.cpp:41"
[[nodiscard]] std::string split_comparison_label(const Node& node);

/// Compares this rank's split lists with its peers' lists. Called by every rank of the group before
/// any row is sent. Each rank sends its peers the number of rows that it has for them. If a peer's
/// number differs from the number that this rank expects, sets `misfit` (RuntimeAssert): this rank
/// has failed. Otherwise `misfit` is unchanged. `splits` are the evaluated lists, or empty if this
/// rank has failed before: the next status round reports that failure. Errors: the communicator's.
[[nodiscard]] Result<void> compare_splits(collectives::Communicator& group, RunHost& host,
                                          const Node& node, std::span<const std::int64_t> splits,
                                          std::string_view label, std::optional<Status>& misfit);

}  // namespace lockstep::worker
