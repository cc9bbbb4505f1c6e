// A collective node of a graph as the operation that a communicator carries out. Shared by the
// interpreter and the compiled program.
#pragma once

#include <optional>
#include <span>
#include <string>

#include <lockstep/collectives/communicator.h>
#include <lockstep/worker/graph.h>
#include <lockstep/worker/run_host.h>

namespace lockstep::worker {

/// Where the values of a collective node are, this run.
struct NodeBuffers {
  const void* operand = nullptr;
  void* result = nullptr;
  std::span<const std::int64_t> operand_sizes, result_sizes;
  std::span<const std::int64_t> exprs;  // evaluated
};

/// The operation, not started. For a broadcast it copies the operand to the result first. `label`
/// and `buffers` are referred to.
[[nodiscard]] collectives::Collective collective_of(const Node& node, const NodeBuffers& buffers,
                                                    std::string_view label);

/// Who carries it out: the ranks of the named group, else `frames`. Errors: Internal (this rank is
/// in no such group; a frame's trace has been refused before).
[[nodiscard]] Result<collectives::Communicator*> ranks_of(const Node& node,
                                                          collectives::Communicator& frames,
                                                          RunHost& host);

/// "all_to_all at moe.cpp:41", "all_reduce of group tensor at moe.cpp:43"
[[nodiscard]] std::string collective_label(const Node& node);

/// What is wrong with the split lists of an AllToAll: counts for another number of ranks, negative
/// ones, sums that are not the rows of the operand and of the result. RuntimeAssert.
[[nodiscard]] std::optional<Status> splits_failure(const Graph& graph, NodeId id,
                                                   std::span<const std::int64_t> splits,
                                                   std::int64_t operand_rows,
                                                   std::int64_t result_rows, int group_size);

}  // namespace lockstep::worker
