// Convolutions and pools.
#include "op_samples.h"

#include <lockstep/worker/tensor/language/movement_ops.h>
#include <lockstep/worker/tensor/layers/convolution.h>
#include <lockstep/worker/tensor/layers/pooling.h>

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

/// Of the last two dims behind `before` others, as torch's unfold and fold of images have them.
std::vector<Windows> image_windows(std::int64_t before, Arguments kernel, Arguments dilation,
                                   Arguments stride) {
  std::vector<Windows> windows;
  for (std::size_t d = 0; d < 2; ++d)
    windows.push_back({.dim = before + static_cast<std::int64_t>(d),
                       .size = kernel.at(d).get<std::int64_t>(),
                       .stride = stride.at(d),
                       .dilation = dilation.at(d)});
  return windows;
}

/// [.., C, H, W] to [.., C * kernel, windows]; kernel, dilation, padding, stride.
Tensor columns(const Tensor& x, Arguments n) {
  const std::int64_t channel = x.ndim() - 3;
  Tensor y = x;
  for (std::size_t d = 0; d < 2; ++d) {
    const auto by = n.at(2).at(d).get<std::int64_t>();
    y = pad(y, channel + 1 + static_cast<std::int64_t>(d), by, by);
  }
  y = unfold(y, image_windows(channel + 1, n.at(0), n.at(1), n.at(3)));
  y = movedim(y, {channel + 1, channel + 2}, {-2, -1});
  return flatten(flatten(y, -2, -1), channel, channel + 2);
}

/// The way back; the sizes of the image, then as above.
Tensor folded(const Tensor& x, Arguments n) {
  const std::int64_t channel = x.ndim() - 2;
  std::vector<Windows> windows = image_windows(channel + 1, n.at(1), n.at(2), n.at(4));
  Sizes counts, kernel{-1}, padded;
  for (std::size_t d = 0; d < 2; ++d) {
    const auto size = n.at(0).at(d).get<std::int64_t>(), by = n.at(3).at(d).get<std::int64_t>(),
               reach = n.at(2).at(d).get<std::int64_t>() * (n.at(1).at(d).get<std::int64_t>() - 1);
    padded.push_back(size + 2 * by);
    counts.push_back((size + 2 * by - reach - 1) / windows[d].stride + 1);
    kernel.push_back(windows[d].size);
    windows[d].count = counts[d];
  }
  Tensor y = unflatten(unflatten(x, -1, counts), channel, kernel);
  y = fold(movedim(y, {-2, -1}, {channel + 1, channel + 2}), windows, padded);
  for (std::size_t d = 0; d < 2; ++d)
    y = slice(y, channel + 1 + static_cast<std::int64_t>(d), n.at(3).at(d).get<std::int64_t>(),
              n.at(0).at(d).get<std::int64_t>());
  return y;
}

}  // namespace

// clang-format off
Functions windows() {
  return {
    {"unfold", [](In x, Arguments n) {
       return std::vector{unfold(x[0], {{.dim = n.at(0), .size = n.at(1).get<std::int64_t>(), .stride = n.at(2)}})}; }},
    {"columns", [](In x, Arguments n) { return std::vector{columns(x[0], n)}; }},
    {"fold_columns", [](In x, Arguments n) { return std::vector{folded(x[0], n)}; }},
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
