// The comparison of the split lists of an all_to_all between the ranks of its group, where the
// graph leaves open whether they fit (split_lists.h). Called by JointRun.
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

/// This rank's part in the comparison, which every rank of the group takes before any row moves:
/// each tells its peers how many rows it sends them. What does not fit is this rank's failure:
/// `misfit` (RuntimeAssert), else left as it is. `splits` are the lists, evaluated; empty where
/// this rank has failed, which is told at the status round that follows. Errors: the
/// communicator's.
[[nodiscard]] Result<void> compare_splits(collectives::Communicator& group, RunHost& host,
                                          const Node& node, std::span<const std::int64_t> splits,
                                          std::string_view label, std::optional<Status>& misfit);

}  // namespace lockstep::worker
