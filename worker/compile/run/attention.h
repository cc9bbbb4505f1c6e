// Attention on values in memory: softmax(query key^T) value and its gradient, without the matrix of
// all scores. Used alike by compiled programs on the host and by the interpreter, so both give the
// same bits.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <lockstep/worker/compile/run/threads.h>
#include <lockstep/worker/tensor/graph/graph.h>

namespace lockstep::worker {

/// The sizes of an Attention or AttentionGradient node (graph.h).
struct AttentionSizes {
  enum class Mask : std::uint8_t { None, Seen, Added };  // Seen: bools; Added: floats
  /// `sizes`: those of all operands, one after the other.
  AttentionSizes(const Graph& graph, NodeId node, std::span<const std::int64_t> sizes);

  bool gradient = false, causal = false;
  DType dtype = DType::F32;
  std::int64_t batch = 1, groups = 1, queries = 0, keys = 0, width = 0, value_width = 0;
  Mask mask = Mask::None;
  /// Elements of the mask from one query, and from one key, to the next: 0 if it repeats itself.
  std::int64_t mask_query = 0, mask_key = 0;
  /// The dims of the heads: their sizes, and the elements of the mask from one index to the next.
  std::vector<std::int64_t> head_sizes{}, mask_heads{};

  /// Heads of the query.
  [[nodiscard]] std::int64_t heads() const { return batch * groups; }
  /// Returns the first element of the mask for a head.
  [[nodiscard]] std::int64_t mask_of(std::int64_t head) const;
  /// Elements of the gradients of query, key and value.
  [[nodiscard]] std::array<std::int64_t, 3> parts() const {
    return {heads() * queries * width, batch * keys * width, batch * keys * value_width};
  }
};

/// Computes the node of `sizes` from `operands`, in its order, to `out`. Memory besides these is a
/// constant number of rows for each thread. Bits depend on the sizes alone. Throws
/// std::length_error if a row has more elements than an int can count, which is a limit of the
/// BLAS.
void attend(Threads& threads, const AttentionSizes& sizes, std::span<const void* const> operands,
            void* out);

}  // namespace lockstep::worker
