// Attention made of other ops, with all scores in memory: what the op is compared with.
#pragma once

#include <limits>
#include <optional>

#include <lockstep/worker/tensor/language/op_builder.h>
#include <lockstep/worker/tensor/language/product_ops.h>

namespace lockstep::worker::test {

/// `key` and `value` have as many heads as `query`. The mask is bools, or floats that are added.
inline Tensor composed_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                 const Tensor& mask, bool causal, double scale,
                                 Line line = Line::current()) {
  const At at{line};
  constexpr double kUnseen = -std::numeric_limits<double>::infinity();
  const Tensor scaled = at(query) * at(scale);
  Tensor scores = matmul(scaled, transpose(key, -2, -1, line), line);
  if (!mask.empty() && mask.dtype() == DType::Bool) scores = where(mask, at(scores), at(kUnseen));
  if (!mask.empty() && mask.dtype() != DType::Bool) scores = at(scores) + at(mask);
  if (causal) {
    Trace& trace = *query.trace();
    const Tensor row = unsqueeze(arange(trace, scores.size(-2, line), line), 1, line);
    scores =
        where(at(row) >= at(arange(trace, scores.size(-1, line), line)), at(scores), at(kUnseen));
  }
  const Tensor blind = at(amax(detach(scores, line), {-1}, Keep::Keep, line)) == at(kUnseen);
  const Tensor parts = softmax(where(blind, at(0.0), at(scores)), -1, line);
  return matmul(where(blind, at(0.0), at(parts)), value, line);
}

}  // namespace lockstep::worker::test
