// Convolutions: products of a weight with the window of x at each place (im2col), so that forward
// and backward are large products. Names, defaults and results are those of torch.nn.functional.
#pragma once

#include <lockstep/worker/tensor/language/tensor_ops.h>

namespace lockstep::worker {

/// Lists have one number for all dims, or one per dim.
struct ConvOptions {
  Dims stride{1};
  Dims padding{0};  // zeros on either side
  bool same =
      false;  // in place of `padding`: zeros that keep the sizes of x; an odd zero goes behind
  Dims dilation{1};
  std::int64_t groups = 1;  // of channels; each is a convolution of its own
};

/// x [N, C, L] or [C, L], weight [O, C / groups, K], bias [O] or none: [N, O, (L + 2 padding -
/// dilation (K - 1) - 1) / stride + 1]. Sizes may be symbolic. Checks that the kernel lies within
/// the padded x. Throws TraceUsageError for operands that do not fit.
[[nodiscard]] Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                            const ConvOptions& options = {}, Line where = Line::current());
/// x [N, C, H, W] or [C, H, W], weight [O, C / groups, KH, KW].
[[nodiscard]] Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                            const ConvOptions& options = {}, Line where = Line::current());

}  // namespace lockstep::worker
