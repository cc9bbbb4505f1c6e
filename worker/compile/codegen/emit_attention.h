// Attention on a device: the kernels between the products of an Attention step, for CUDA. Queries
// are handled in blocks, all heads at once, so memory grows as the number of keys.
#pragma once

#include <cstdint>
#include <vector>

#include <lockstep/worker/compile/codegen/emitter.h>

namespace lockstep::worker {

/// Most queries of a block.
inline constexpr std::int64_t kAttentionBlock = 128;

/// Kernels in the order of Step::kernels. They make arrays of a block, [heads, queries of the
/// block, ..], without gaps. Parameters: values, then numbers; "place": number of queries of the
/// block, its first query, all queries.
enum class AttentionKernel : std::uint8_t {
  Take,   // rows of the block: from, to; elements of `to`, place, width, and elements from one row
          // of `from` to the next
  Parts,  // Attention: scores become exp of them over their sum: scores, logs, mask; rows, place,
          // keys, mask numbers. AttentionGradient: scores become parts, and gradients of parts
          // those of scores: scores, gradients, result, its gradient, mask; rows, place, keys,
          // width of values, mask numbers
  Put,    // the inverse of Take; behind each row its log, if Attention: from, logs, to; elements of
          // `to` that are written, place, width
  Add,    // AttentionGradient: to, from; elements
};
// Mask numbers, if there is a mask: elements of the mask from one query and one key to the next,
// and then for each dim of the heads, from the last to the first, its size and the elements of the
// mask from one index to the next.

/// Returns the kernels of an Attention or AttentionGradient node. They have no buffers and no
/// arguments of a plan, and any number of blocks.
[[nodiscard]] std::vector<KernelText> attention_kernels(const Graph& graph, NodeId id);

/// Returns the scratch memory of a step, in the order of its buffers behind the result: the block's
/// queries, scores, sums (Attention: results; AttentionGradient: gradients of queries). Then logs;
/// or for AttentionGradient gradients of results, gradients of parts, and what a block adds to the
/// gradients of keys and of values.
[[nodiscard]] std::vector<Emission::Scratch> attention_scratch(const Graph& graph, NodeId id);

}  // namespace lockstep::worker
