// Pooling: the largest element of each window of x, and means of windows. Names, defaults and
// results are those of torch.nn.functional. x is [N, C, L] or [C, L] for 1d, [N, C, H, W] or [C, H,
// W] for 2d; sizes may be symbolic.
#pragma once

#include <optional>

#include <lockstep/worker/tensor/language/tensor_ops.h>

namespace lockstep::worker {

/// Lists have one number for all dims, or one per dim.
struct PoolOptions {
  Dims kernel;
  Dims stride{};           // empty: the kernel's
  Dims padding{0};         // on either side, at most half of the kernel; never taken as the largest
  Dims dilation{1};        // for max_pool only
  bool ceil_mode = false;  // a last window may lie partly behind x and its padding
  // For avg_pool only.
  bool count_include_pad = true;          // the zeros of the padding count as elements
  std::optional<std::int64_t> divisor{};  // instead of the number of elements
};

/// The gradient goes to the first of equal elements. A dilated window that covers no element of x
/// gives the lowest value.
[[nodiscard]] Tensor max_pool1d(const Tensor& x, const PoolOptions& options,
                                Line where = Line::current());
[[nodiscard]] Tensor max_pool2d(const Tensor& x, const PoolOptions& options,
                                Line where = Line::current());
[[nodiscard]] Tensor avg_pool1d(const Tensor& x, const PoolOptions& options,
                                Line where = Line::current());
[[nodiscard]] Tensor avg_pool2d(const Tensor& x, const PoolOptions& options,
                                Line where = Line::current());

/// The largest elements, and their row-major places in their plane of x, i64.
struct Pooled {
  Tensor value, indices;
};
[[nodiscard]] Pooled max_pool1d_with_indices(const Tensor& x, const PoolOptions& options,
                                             Line where = Line::current());
[[nodiscard]] Pooled max_pool2d_with_indices(const Tensor& x, const PoolOptions& options,
                                             Line where = Line::current());

/// Divides x into `sizes` windows, a number per dim; -1 means as many as the dim has elements.
[[nodiscard]] Tensor adaptive_avg_pool1d(const Tensor& x, std::int64_t size,
                                         Line where = Line::current());
[[nodiscard]] Tensor adaptive_avg_pool2d(const Tensor& x, const Dims& sizes,
                                         Line where = Line::current());
[[nodiscard]] Tensor adaptive_max_pool1d(const Tensor& x, std::int64_t size,
                                         Line where = Line::current());
[[nodiscard]] Tensor adaptive_max_pool2d(const Tensor& x, const Dims& sizes,
                                         Line where = Line::current());

}  // namespace lockstep::worker
