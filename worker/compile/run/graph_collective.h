// A collective node of a graph as the operation that a communicator carries out. Called by
// JointRun.
#pragma once

#include <optional>
#include <span>
#include <string>

#include <lockstep/collectives/communicator.h>
#include <lockstep/worker/compile/run/run_host.h>
#include <lockstep/worker/tensor/graph/graph.h>

namespace lockstep::worker {

/// Addresses and sizes of a collective node's values in this run.
struct NodeBuffers {
  const void* operand = nullptr;
  void* result = nullptr;
  std::span<const std::int64_t> operand_sizes, result_sizes;
  std::span<const std::int64_t> exprs;  // values of the node's exprs
};

[[nodiscard]] std::int64_t elements_of(std::span<const std::int64_t> sizes);

/// Copies the operand of a broadcast to its result, because a broadcast sends from its receive
/// buffer. Both are on the host. Does nothing for other nodes.
void fill_root(const Node& node, const NodeBuffers& buffers);

/// Returns the node's operation without starting it. For a broadcast, call fill_root() first. The
/// result refers to `label` and `buffers`.
[[nodiscard]] collectives::Collective collective_of(const Node& node, const NodeBuffers& buffers,
                                                    std::string_view label);

/// Runs the collective on a rank that has failed: it sends zeros of the sizes in `buffers`, whose
/// pointers are ignored, and discards what it receives. The peers' results are invalid too (a
/// minimum over zeros, say); a later status round tells the peers. Errors: the communicator's.
/// Throws std::bad_alloc.
[[nodiscard]] Result<void> take_part_with_zeros(collectives::Communicator& communicator,
                                                const Node& node, NodeBuffers buffers,
                                                DType operand, std::string_view label);

/// Returns the communicator of the group that the node names. If it names no group, returns
/// `frames`, the frame's communicator. Errors: Internal if this rank is not in the group (tracing
/// refuses such a frame).
[[nodiscard]] Result<collectives::Communicator*> ranks_of(const Node& node,
                                                          collectives::Communicator& frames,
                                                          RunHost& host);

/// "all_to_all at moe.cpp:41", "all_reduce of group tensor at moe.cpp:43"
[[nodiscard]] std::string collective_label(const Node& node);

/// Returns what is wrong with the split lists of an AllToAll (RuntimeAssert): counts for another
/// number of ranks, negative counts, or sums other than the rows of the operand and of the result.
[[nodiscard]] std::optional<Status> splits_failure(const Graph& graph, NodeId id,
                                                   std::span<const std::int64_t> splits,
                                                   std::int64_t operand_rows,
                                                   std::int64_t result_rows, int group_size);

}  // namespace lockstep::worker
