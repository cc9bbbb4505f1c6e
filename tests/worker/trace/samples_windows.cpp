// Convolutions and pools.
#include "op_samples.h"

#include <lockstep/worker/layers/convolution.h>
#include <lockstep/worker/layers/pooling.h>

namespace lockstep::worker::samples {
namespace {

Dims numbers_of(Arguments list) {
  Dims out;
  for (const auto& number : list) out.push_back(number.get<std::int64_t>());
  return out;
}

/// Stride, padding or "same", dilation, groups; a third tensor is the bias.
std::vector<Tensor> convolved(In x, Arguments n,
                              Tensor (*conv)(const Tensor&, const Tensor&, const Tensor&,
                                             const ConvOptions&, Line)) {
  const bool same = n[1].is_string();
  const ConvOptions options{.stride = numbers_of(n[0]),
                            .padding = same ? Dims{0} : numbers_of(n[1]),
                            .same = same,
                            .dilation = numbers_of(n[2]),
                            .groups = n[3]};
  return {conv(x[0], x[1], x.size() > 2 ? x[2] : Tensor(), options, Line::current())};
}

PoolOptions pool_options(Arguments n) {
  return {.kernel = numbers_of(n[0]),
          .stride = numbers_of(n[1]),
          .padding = numbers_of(n[2]),
          .dilation = numbers_of(n[3]),
          .ceil_mode = n[4],
          .count_include_pad = n[5],
          .divisor = n[6].is_null() ? std::optional<std::int64_t>() : n[6].get<std::int64_t>()};
}
std::vector<Tensor> both(const Pooled& pooled) { return {pooled.value, pooled.indices}; }

}  // namespace

// clang-format off
Functions windows() {
  return {
    {"conv1d", [](In x, Arguments n) { return convolved(x, n, conv1d); }},
    {"conv2d", [](In x, Arguments n) { return convolved(x, n, conv2d); }},
    {"max_pool1d", [](In x, Arguments n) { return std::vector{max_pool1d(x[0], pool_options(n))}; }},
    {"max_pool2d", [](In x, Arguments n) { return std::vector{max_pool2d(x[0], pool_options(n))}; }},
    {"max_pool1d_with_indices", [](In x, Arguments n) { return both(max_pool1d_with_indices(x[0], pool_options(n))); }},
    {"max_pool2d_with_indices", [](In x, Arguments n) { return both(max_pool2d_with_indices(x[0], pool_options(n))); }},
    {"avg_pool1d", [](In x, Arguments n) { return std::vector{avg_pool1d(x[0], pool_options(n))}; }},
    {"avg_pool2d", [](In x, Arguments n) { return std::vector{avg_pool2d(x[0], pool_options(n))}; }},
    {"adaptive_avg_pool1d", [](In x, Arguments n) { return std::vector{adaptive_avg_pool1d(x[0], n[0])}; }},
    {"adaptive_avg_pool2d", [](In x, Arguments n) { return std::vector{adaptive_avg_pool2d(x[0], numbers_of(n[0]))}; }},
    {"adaptive_max_pool1d", [](In x, Arguments n) { return std::vector{adaptive_max_pool1d(x[0], n[0])}; }},
    {"adaptive_max_pool2d", [](In x, Arguments n) { return std::vector{adaptive_max_pool2d(x[0], numbers_of(n[0]))}; }},
  };
}
// clang-format on

}  // namespace lockstep::worker::samples
