// Jagged tensors: segments, padding, attention within segments.
#include "op_samples.h"

#include <lockstep/worker/tensor/jagged/padding.h>
#include <lockstep/worker/tensor/jagged/segments.h>
#include <lockstep/worker/tensor/language/order_ops.h>
#include <lockstep/worker/tensor/layers/attention.h>

namespace lockstep::worker::samples {
namespace {

/// Segments along an axis, each place of the dims before it having lengths of its own; with a value
/// that is one of every segment's.
std::vector<Tensor> segment_reduce(In x, Arguments n) {
  const std::string name = n[0];
  const auto axis = static_cast<std::size_t>(n[1].get<int>());
  const double initial = n[2];
  const Tensor lengths = n[3].get<bool>() ? diff(x[1], -1) : x[1];
  Sizes sizes = x[0].sizes(), rows(sizes.begin() + static_cast<std::ptrdiff_t>(axis), sizes.end());
  rows[0] = -1;
  const Jagged all{reshape(x[0], rows), reshape(lengths, {-1})};
  Sizes column(static_cast<std::size_t>(all.values.ndim()), 1);
  column[0] = -1;
  const Tensor count = reshape(all.lengths, column);
  const auto joined = [&]() -> Tensor {
    if (name == "max") return maximum(segment_max(all), initial);
    if (name == "min") return minimum(segment_min(all), initial);
    if (name == "prod") return segment_prod(all) * initial;
    if (name == "sum") return segment_sum(all) + initial;
    const Tensor share = initial / cast(maximum(count, 1), x[0].dtype());
    return where(count == 0, initial, where(count == 0, 0.0, segment_mean(all)) + share);
  };
  sizes[axis] = lengths.size(static_cast<std::int64_t>(axis));
  return {reshape(joined(), sizes)};
}

}  // namespace

Functions jagged() {
  return {
      {"segment_reduce", segment_reduce},
      {"segment_softmax",
       [](In x, Arguments) {
         return std::vector{segment_softmax({x[0], x[1]}).values};
       }},
      {"segment_cumsum",
       [](In x, Arguments) {
         return std::vector{segment_cumsum({x[0], x[1]}).values};
       }},
      {"to_padded",
       [](In x, Arguments n) {
         const Jagged rows{x[0], x[1]};
         const Tensor dense = to_padded(rows, longest(x[1]), n[0].get<double>());
         return std::vector{dense, from_padded(dense, x[1]).values};
       }},
      {"jagged_attention",
       [](In x, Arguments n) {
         return std::vector{
             jagged_attention({x[0], x[3]}, x[1], x[2], {.is_causal = n[0].get<bool>()}).values};
       }},
  };
}

}  // namespace lockstep::worker::samples
