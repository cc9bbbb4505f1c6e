// A collective node of a graph as the operation that a communicator carries out. Called by
// JointRun.
#pragma once

#include <optional>
#include <span>
#include <string>

#include <lockstep/collectives/communicator.h>
#include <lockstep/worker/graph/graph.h>
#include <lockstep/worker/run/run_host.h>

namespace lockstep::worker {

/// Where the values of a collective node are, this run.
struct NodeBuffers {
  const void* operand = nullptr;
  void* result = nullptr;
  std::span<const std::int64_t> operand_sizes, result_sizes;
  std::span<const std::int64_t> exprs;  // evaluated
};

[[nodiscard]] std::int64_t elements_of(std::span<const std::int64_t> sizes);

/// A broadcast sends from where it receives: copies the operand to the result. Anything else:
/// nothing. Both on the host.
void fill_root(const Node& node, const NodeBuffers& buffers);

/// The operation, not started; the result of a broadcast has been filled. `label` and `buffers` are
/// referred to.
[[nodiscard]] collectives::Collective collective_of(const Node& node, const NodeBuffers& buffers,
                                                    std::string_view label);

/// The part of a rank that has failed: the collective with the sizes of `buffers`, whose pointers
/// are not looked at, and zeros for all that it sends. What it receives is thrown away. The peers'
/// results are worth nothing either (a minimum with zeros among them), which they learn later.
/// Errors: the communicator's. Throws std::bad_alloc.
[[nodiscard]] Result<void> take_part_with_zeros(collectives::Communicator& communicator,
                                                const Node& node, NodeBuffers buffers,
                                                DType operand, std::string_view label);

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
