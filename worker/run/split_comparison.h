// Compares the split lists of an all_to_all between the ranks of its group if the graph does not
// guarantee that they match (split_lists.h). Called by JointRun.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <lockstep/worker/graph/graph.h>
#include <lockstep/worker/run/run_host.h>

namespace lockstep::worker {

/// "row counts of all_to_all_single at moe.cpp:41"
[[nodiscard]] std::string split_comparison_label(const Node& node);

/// Compares this rank's split lists; called by every rank of the group before any row is sent. Each
/// rank sends its peers the number of rows that it has for them. A mismatch is this rank's failure:
/// it sets `misfit` (RuntimeAssert), which is otherwise unchanged. `splits` are the evaluated
/// lists; empty if this rank has failed, which the status round that follows reports. Errors: the
/// communicator's.
[[nodiscard]] Result<void> compare_splits(collectives::Communicator& group, RunHost& host,
                                          const Node& node, std::span<const std::int64_t> splits,
                                          std::string_view label, std::optional<Status>& misfit);

}  // namespace lockstep::worker
