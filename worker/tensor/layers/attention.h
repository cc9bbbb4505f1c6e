// Attention. Names and meanings follow torch.nn.functional. If operands do not fit, every function
// throws TraceUsageError with the user's line.
#pragma once

#include <optional>

#include <lockstep/worker/tensor/jagged/jagged.h>

namespace lockstep::worker {

struct AttentionOptions {
  Tensor mask{};                  // broadcasts; bool: true for a key that is seen; floats: added
  bool is_causal = false;         // query i sees keys 0, ..., i; not together with a mask
  std::optional<double> scale{};  // default: 1 / sqrt(E)
  /// The dim before L and S is that of the heads. Key and value may have fewer heads than the
  /// query: so many heads of the query, one after the other, share a head of them.
  bool enable_gqa = false;
};
/// softmax(query key^T * scale) value: query [.., L, E], key [.., S, E], value [.., S, V] to [..,
/// L, V]. A query that sees no key gives zeros, without gradient. The matrix of all scores is never
/// in memory, nor is a mask that repeats itself; except that the gradient of a mask of floats, and
/// second gradients, are made of all scores.
[[nodiscard]] Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key,
                                                  const Tensor& value,
                                                  const AttentionOptions& options = {},
                                                  Line where = Line::current());

struct JaggedAttentionOptions {
  bool is_causal = false;
  std::optional<double> scale{};
  std::optional<SymInt> at_most{};  // most rows of a segment; by default the longest, read back
};
/// As above, within each segment: query [R, E] or, with H heads, [R, H, E], with a key and a value
/// for each of its rows. Padding exists only inside: the result has the rows of the query. A
/// segment with more rows than at_most is a joint error when the graph runs.
[[nodiscard]] Jagged jagged_attention(const Jagged& query, const Tensor& key, const Tensor& value,
                                      const JaggedAttentionOptions& options = {},
                                      Line where = Line::current());

/// The pairs of elements of a row that are rotated together.
enum class RotaryForm : std::uint8_t {
  HalfSplit,    // i and i + D/2
  Interleaved,  // 2i and 2i + 1
};
struct RotaryOptions {
  RotaryForm form = RotaryForm::HalfSplit;
  double base = 10000;
};
/// Rotates pair i of each row of x [.., L, D] by position * base^(-2i/D) radians. Positions are
/// numbers or floats that broadcast against x without its last dim, as [L] does. Checks that D is
/// even. Angles are computed in f64.
[[nodiscard]] Tensor rotary_embedding(const Tensor& x, const Tensor& positions,
                                      const RotaryOptions& options = {},
                                      Line where = Line::current());

}  // namespace lockstep::worker
