// Embeddings: rows of a table by number. Names and meanings follow torch.nn.functional. A number
// out of range is an error when the graph runs. An empty tensor as an option means none. If
// operands do not fit, every function throws TraceUsageError with the user's line.
#pragma once

#include <optional>

#include <lockstep/worker/tensor/language/tensor_ops.h>

namespace lockstep::worker {

/// Rows of table [R, D] at index i64 [..]: [.., D]. The row `padding_idx` (negative: from the end)
/// gets no gradient.
[[nodiscard]] Tensor embedding(const Tensor& index, const Tensor& table,
                               std::optional<std::int64_t> padding_idx = {},
                               Line where = Line::current());

enum class BagMode : std::uint8_t { Sum, Mean, Max };

struct BagOptions {
  // A 1-D index needs `offsets` or `lengths`.
  Tensor offsets{};                  // i64 [B]: start of each bag, the first at 0
  bool include_last_offset = false;  // offsets [B + 1] end with the length of the index
  Tensor lengths{};                  // i64 [B]: number of elements of each bag
  BagMode mode = BagMode::Mean;
  Tensor per_sample_weights{};                // has the index's sizes; for sums only
  std::optional<std::int64_t> padding_idx{};  // this row is left out of the bags
};
/// The sum, mean or largest of the rows of table [R, D] in each bag: [B, D], zeros for an empty
/// bag. Index is i64 [B, L], a bag per row; or [N], with one bag after the other. Checks when the
/// graph runs that lengths add up to N.
[[nodiscard]] Tensor embedding_bag(const Tensor& index, const Tensor& table,
                                   const BagOptions& options = {}, Line where = Line::current());

}  // namespace lockstep::worker
