// Normalisation. Names and meanings follow torch.nn.functional. Mean and variance are computed in
// two passes, so large means cost no digits. An empty tensor as weight or bias means none. If
// operands do not fit, every function throws TraceUsageError with the user's line.
#pragma once

#include <optional>

#include <lockstep/worker/tensor/language/tensor_ops.h>

namespace lockstep::worker {

/// (x - mean) / sqrt(variance + eps) over the last `dims` dims of x, times weight plus bias, which
/// have the sizes of these dims.
[[nodiscard]] Tensor layer_norm(const Tensor& x, std::int64_t dims, const Tensor& weight = {},
                                const Tensor& bias = {}, double eps = 1e-5,
                                Line where = Line::current());
/// x / sqrt(mean of x^2 + eps) over the last `dims` dims, times weight. The default eps is the
/// distance from 1 to the next number of the dtype.
[[nodiscard]] Tensor rms_norm(const Tensor& x, std::int64_t dims, const Tensor& weight = {},
                              std::optional<double> eps = {}, Line where = Line::current());
/// As layer_norm over each of `groups` equal parts of the channels of x [N, C, ..]; weight and bias
/// are [C]. Checks that the groups share the channels equally.
[[nodiscard]] Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight = {},
                                const Tensor& bias = {}, double eps = 1e-5,
                                Line where = Line::current());

}  // namespace lockstep::worker
