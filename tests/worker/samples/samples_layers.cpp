// Products, and what models are made of.
#include "op_samples.h"

#include <lockstep/worker/tensor/language/product_ops.h>
#include <lockstep/worker/tensor/layers/attention.h>
#include <lockstep/worker/tensor/layers/clipping.h>
#include <lockstep/worker/tensor/layers/embeddings.h>
#include <lockstep/worker/tensor/layers/losses.h>
#include <lockstep/worker/tensor/layers/norms.h>
#include <lockstep/worker/tensor/layers/optimisers.h>
#include <lockstep/worker/tensor/layers/schedules.h>

namespace lockstep::worker::samples {
namespace {

/// The tensor whose number among the sample's an argument is; null: none.
Tensor tensor_of(In x, Arguments number) {
  return number.is_null() ? Tensor() : x.at(number.get<std::size_t>());
}
Reduction reduction_of(Arguments name) {
  return name == "none" ? Reduction::None : name == "sum" ? Reduction::Sum : Reduction::Mean;
}
std::optional<double> number_of(Arguments number) {
  return number.is_null() ? std::optional<double>() : number.get<double>();
}
std::optional<std::int64_t> row_of(Arguments number) {
  return number.is_null() ? std::optional<std::int64_t>() : number.get<std::int64_t>();
}

/// Two parameters, and as many gradients for every step behind them.
template <class State, class Options>
std::vector<Tensor> stepped(In x, State state, const Options& options,
                            Updated<State> (*optimiser)(const std::vector<Tensor>&,
                                                        const std::vector<Tensor>&, const State&,
                                                        const Options&, Line)) {
  std::vector<Tensor> params{x[0], x[1]};
  for (std::size_t i = 2; i < x.size(); i += 2) {
    const Updated<State> next =
        optimiser(params, {x[i], x[i + 1]}, state, options, Line::current());
    params = next.params;
    state = next.state;
  }
  return params;
}
AdamOptions adam_options(Arguments n) {
  return {.rate = n[0].get<double>(),
          .beta1 = n[1],
          .beta2 = n[2],
          .eps = n[3],
          .weight_decay = number_of(n[4])};
}

std::vector<Tensor> bag(In x, Arguments n) {
  const std::string mode = n[0];
  return {embedding_bag(x[0], x[1],
                        {.offsets = tensor_of(x, n[1]),
                         .include_last_offset = n[2],
                         .mode = mode == "sum"    ? BagMode::Sum
                                 : mode == "mean" ? BagMode::Mean
                                                  : BagMode::Max,
                         .per_sample_weights = tensor_of(x, n[3]),
                         .padding_idx = row_of(n[4])})};
}

}  // namespace

// clang-format off
Functions layers() {
  return {
    {"matmul", [](In x, Arguments) { return std::vector{matmul(x[0], x[1])}; }},
    {"bmm", [](In x, Arguments) { return std::vector{bmm(x[0], x[1])}; }},
    {"mv", [](In x, Arguments) { return std::vector{mv(x[0], x[1])}; }},
    {"dot", [](In x, Arguments) { return std::vector{dot(x[0], x[1])}; }},
    {"outer", [](In x, Arguments) { return std::vector{outer(x[0], x[1])}; }},
    {"einsum", [](In x, Arguments n) { return std::vector{einsum(n[0].get<std::string>(), x)}; }},
    {"layer_norm", [](In x, Arguments n) {
       return std::vector{layer_norm(x[0], n[0], tensor_of(x, n[1]), tensor_of(x, n[2]), n[3])}; }},
    {"rms_norm", [](In x, Arguments n) { return std::vector{rms_norm(x[0], n[0], tensor_of(x, n[1]), number_of(n[2]))}; }},
    {"group_norm", [](In x, Arguments n) {
       return std::vector{group_norm(x[0], n[0], tensor_of(x, n[1]), tensor_of(x, n[2]), n[3])}; }},
    {"cross_entropy", [](In x, Arguments n) {
       return std::vector{cross_entropy(x[0], x[1], {.weight = tensor_of(x, n[0]), .ignore_index = n[1],
                                                     .reduction = reduction_of(n[2]), .label_smoothing = n[3]})}; }},
    {"nll_loss", [](In x, Arguments n) {
       return std::vector{nll_loss(x[0], x[1], {.weight = tensor_of(x, n[0]), .ignore_index = n[1],
                                                .reduction = reduction_of(n[2])})}; }},
    {"mse_loss", [](In x, Arguments n) { return std::vector{mse_loss(x[0], x[1], reduction_of(n[0]))}; }},
    {"smooth_l1_loss", [](In x, Arguments n) { return std::vector{smooth_l1_loss(x[0], x[1], reduction_of(n[0]), n[1])}; }},
    {"huber_loss", [](In x, Arguments n) { return std::vector{huber_loss(x[0], x[1], reduction_of(n[0]), n[1])}; }},
    {"binary_cross_entropy_with_logits", [](In x, Arguments n) {
       return std::vector{binary_cross_entropy_with_logits(
           x[0], x[1], {.weight = tensor_of(x, n[0]), .pos_weight = tensor_of(x, n[1]), .reduction = reduction_of(n[2])})}; }},
    {"embedding", [](In x, Arguments n) { return std::vector{embedding(x[0], x[1], row_of(n[0]))}; }},
    {"embedding_bag", bag},
    {"scaled_dot_product_attention", [](In x, Arguments n) {
       return std::vector{scaled_dot_product_attention(
           x[0], x[1], x[2], {.mask = tensor_of(x, n[0]), .is_causal = n[1], .scale = number_of(n[2]), .enable_gqa = n[3]})}; }},
    {"sgd", [](In x, Arguments n) {
       const SgdOptions options{.rate = n[0].get<double>(), .momentum = n[1], .dampening = n[2], .weight_decay = n[3], .nesterov = n[4]};
       return stepped(x, sgd_start({x[0], x[1]}, options), options, sgd); }},
    {"adam", [](In x, Arguments n) { return stepped(x, adam_start({x[0], x[1]}), adam_options(n), adam); }},
    {"adamw", [](In x, Arguments n) { return stepped(x, adam_start({x[0], x[1]}), adam_options(n), adamw); }},
    {"adafactor", [](In x, Arguments n) {
       const AdafactorOptions options{.rate = n[0].get<double>(), .beta2_decay = n[1], .eps1 = number_of(n[2]), .eps2 = n[3], .clip = n[4], .weight_decay = n[5]};
       return stepped(x, adafactor_start({x[0], x[1]}), options, adafactor); }},
    {"clip_grad_norm", [](In x, Arguments n) {
       const Clipped clipped = clip_grad_norm(x, n[0].get<double>());
       return std::vector{clipped.grads[0], clipped.grads[1], clipped.norm}; }},
    {"clip_grad_value", [](In x, Arguments n) { return clip_grad_value(x, n[0].get<double>()); }},
    {"rates", [](In x, Arguments) {
       const Tensor& step = x[0];
       return std::vector{constant_rate(0.5, step, 4, 0.25).tensor(), linear_rate(0.5, step, 6, 0.1, 0.9).tensor(),
                          step_rate(0.5, step, 3, 0.7).tensor(), exponential_rate(0.5, step, 0.9).tensor(),
                          cosine_rate(0.5, step, 10, 0.1).tensor(),
                          sequential_rate(step, 4, linear_rate(0.5, step, 4, 0.1), exponential_rate(0.5, step - 4, 0.9)).tensor()}; }},
  };
}
// clang-format on

}  // namespace lockstep::worker::samples
