// Losses. Names and meanings follow torch.nn.functional: classes lie in dim 1, in a 1-D tensor in
// dim 0; losses of elements are averaged, summed or returned. An empty tensor as weight means none.
// If operands do not fit, every function throws TraceUsageError with the user's line.
#pragma once

#include <lockstep/worker/tensor/language/tensor_ops.h>

namespace lockstep::worker {

enum class Reduction : std::uint8_t { None, Mean, Sum };

struct NllOptions {
  Tensor weight{};                   // per class [C]
  std::int64_t ignore_index = -100;  // elements with this label are ignored
  Reduction reduction = Reduction::Mean;
};
/// Minus the log-probability of each label: log_probabilities [N, C, ..] with labels i64 [N, ..],
/// or [C] with one label. A label out of range is an error when the graph runs, unless it is
/// ignore_index. The mean is over the elements that are not ignored, weighted by their labels; it
/// is not a number if there are none.
[[nodiscard]] Tensor nll_loss(const Tensor& log_probabilities, const Tensor& labels,
                              const NllOptions& options = {}, Line where = Line::current());

struct CrossEntropyOptions {
  Tensor weight{};
  std::int64_t ignore_index = -100;  // applies to labels only
  Reduction reduction = Reduction::Mean;
  double label_smoothing = 0;  // this part of each target is spread evenly over the classes
};
/// Takes logits x [N, C, ..], and labels as nll_loss does or probabilities with the sizes of x.
/// With probabilities the mean is over the elements, without weights.
[[nodiscard]] Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                                   const CrossEntropyOptions& options = {},
                                   Line where = Line::current());

struct BinaryOptions {
  Tensor weight{};      // weight of each element; broadcasts
  Tensor pos_weight{};  // weight of the term with target 1; broadcasts
  Reduction reduction = Reduction::Mean;
};
/// -(target * log(p) + (1 - target) * log(1 - p)) with p = sigmoid(logits), without overflow.
[[nodiscard]] Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target,
                                                      const BinaryOptions& options = {},
                                                      Line where = Line::current());

/// (x - target)^2
[[nodiscard]] Tensor mse_loss(const Tensor& x, const Tensor& target,
                              Reduction reduction = Reduction::Mean, Line where = Line::current());
/// d^2 / (2 beta) where d = |x - target| is below beta, else d - beta / 2.
[[nodiscard]] Tensor smooth_l1_loss(const Tensor& x, const Tensor& target,
                                    Reduction reduction = Reduction::Mean, double beta = 1,
                                    Line where = Line::current());
/// delta * smooth_l1_loss(x, target), with delta as its beta.
[[nodiscard]] Tensor huber_loss(const Tensor& x, const Tensor& target,
                                Reduction reduction = Reduction::Mean, double delta = 1,
                                Line where = Line::current());

}  // namespace lockstep::worker
