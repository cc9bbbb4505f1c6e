// Products of many operands, jagged tensors, and layers of models.
#include "op_case_lists.h"

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/jagged/feature_exchange.h>
#include <lockstep/worker/tensor/jagged/padding.h>
#include <lockstep/worker/tensor/jagged/segments.h>
#include <lockstep/worker/tensor/language/movement_ops.h>
#include <lockstep/worker/tensor/language/product_ops.h>
#include <lockstep/worker/tensor/layers/attention.h>
#include <lockstep/worker/tensor/layers/clipping.h>
#include <lockstep/worker/tensor/layers/convolution.h>
#include <lockstep/worker/tensor/layers/embeddings.h>
#include <lockstep/worker/tensor/layers/losses.h>
#include <lockstep/worker/tensor/layers/norms.h>
#include <lockstep/worker/tensor/layers/optimisers.h>
#include <lockstep/worker/tensor/layers/pooling.h>
#include <lockstep/worker/tensor/layers/schedules.h>

namespace lockstep::worker::test {
namespace {

using LayerFill = CaseInput::Fill;
using LayerIn = const std::vector<Tensor>&;

CaseInput signed_of(std::vector<CaseDim> dims) { return {LayerFill::Signed, std::move(dims)}; }
CaseInput positive_of(std::vector<CaseDim> dims) { return {LayerFill::Positive, std::move(dims)}; }
CaseInput order_of(std::vector<CaseDim> dims) { return {LayerFill::Order, std::move(dims)}; }

void add_products_of_many(std::vector<OpCase>& cases) {
  cases.push_back({"matmul_broadcast",
                   {signed_of({kN, fixed(1), fixed(2), kM}), signed_of({fixed(3), kM, fixed(2)})},
                   [](Trace&, LayerIn x) { return matmul(x[0], x[1]); }});
  cases.push_back({"matmul_one_right",
                   {signed_of({kN, fixed(2), kM}), signed_of({fixed(1), kM, fixed(2)})},
                   [](Trace&, LayerIn x) { return matmul(x[0], x[1]); }});
  cases.push_back({"matmul_vectors",
                   {signed_of({kN, kM}), signed_of({kM}), signed_of({kN})},
                   [](Trace&, LayerIn x) {
                     const Tensor columns = matmul(x[2], x[0]);
                     return outer(mv(x[0], x[1]), columns) * dot(x[1], columns);
                   }});
  cases.push_back({"bmm",
                   {signed_of({kN, fixed(2), kM}), signed_of({kN, kM, fixed(3)})},
                   [](Trace&, LayerIn x) { return bmm(x[0], x[1]); }});
  cases.push_back({"einsum",
                   {signed_of({kN, fixed(2), kM}), signed_of({kM, fixed(3), kN})},
                   [](Trace&, LayerIn x) {
                     return einsum("bij, jkb -> kib", {x[0], x[1]});
                   }});
  cases.push_back(
      {"einsum_diagonal", {signed_of({kN, kM, kN}), signed_of({kM})}, [](Trace&, LayerIn x) {
         return einsum("iji,j->ij", {x[0], x[1]});
       }});
  cases.push_back({"einsum_unnamed",
                   {signed_of({kN, kM, fixed(2)}), signed_of({fixed(2), kM})},
                   [](Trace&, LayerIn x) {
                     return einsum("...d,d...", {x[0], x[1]});
                   }});
}

void add_norms(std::vector<OpCase>& cases) {
  cases.push_back(
      {"layer_norm",
       {signed_of({kN, fixed(3), kM}), positive_of({fixed(3), kM}), signed_of({fixed(3), kM})},
       [](Trace&, LayerIn x) { return layer_norm(x[0] + 3.0, 2, x[1], x[2]); }});
  cases.push_back({"rms_norm", {signed_of({kN, kM}), positive_of({kM})}, [](Trace&, LayerIn x) {
                     return rms_norm(x[0], 1, x[1]);
                   }});
  cases.push_back({"group_norm",
                   {signed_of({kN, fixed(4), kM}), positive_of({fixed(4)}), signed_of({fixed(4)})},
                   [](Trace&, LayerIn x) { return group_norm(x[0], 2, x[1], x[2]); }});
}

void add_losses(std::vector<OpCase>& cases) {
  cases.push_back({"cross_entropy",
                   {signed_of({kN, fixed(3), kM}), order_of({kN, kM}), positive_of({fixed(3)})},
                   [](Trace&, LayerIn x) {
                     return cross_entropy(
                         x[0], x[1] % 3,
                         {.weight = x[2], .ignore_index = 1, .label_smoothing = 0.2});
                   }});
  cases.push_back({"cross_entropy_probabilities",
                   {signed_of({kN, kM}), positive_of({kN, kM})},
                   [](Trace&, LayerIn x) {
                     return cross_entropy(x[0], x[1],
                                          {.reduction = Reduction::None, .label_smoothing = 0.1});
                   }});
  cases.push_back({"nll_loss", {signed_of({kN, fixed(3)}), order_of({kN})}, [](Trace&, LayerIn x) {
                     return nll_loss(exp(x[0]), x[1] % 3, {.reduction = Reduction::None});
                   }});
  cases.push_back(
      {"other_losses", {signed_of({kN, kM}), signed_of({kN, kM})}, [](Trace&, LayerIn x) {
         const Reduction each = Reduction::None;
         return mse_loss(x[0], x[1], each) + smooth_l1_loss(x[0], x[1], each, 0.7) * 2.0 +
                huber_loss(x[0], x[1], each, 0.9) * 3.0 +
                binary_cross_entropy_with_logits(x[0], x[1],
                                                 {.pos_weight = x[1] * x[1], .reduction = each});
       }});
}

void add_embeddings(std::vector<OpCase>& cases) {
  cases.push_back({"embedding",
                   {order_of({kN, kM}), signed_of({fixed(3), kM})},
                   [](Trace&, LayerIn x) { return embedding(x[0] % 3, x[1]); }});
  cases.push_back({"embedding_bag",
                   {order_of({kN, kM}), signed_of({fixed(3), fixed(2)})},
                   [](Trace&, LayerIn x) {
                     const auto bag = [&](BagMode mode) {
                       return embedding_bag(x[0] % 3, x[1], {.mode = mode, .padding_idx = 1});
                     };
                     return cat({bag(BagMode::Sum), bag(BagMode::Mean), bag(BagMode::Max)}, 0);
                   }});
  cases.push_back({"embedding_bag_lengths",
                   {order_of({kN}),
                    signed_of({fixed(3), kM}),
                    {LayerFill::Splits, {fixed(3)}},
                    signed_of({kN})},
                   [](Trace&, LayerIn x) {
                     const Tensor weighted = embedding_bag(
                         x[0] % 3, x[1],
                         {.lengths = x[2], .mode = BagMode::Sum, .per_sample_weights = x[3]});
                     const Tensor largest =
                         embedding_bag(x[0] % 3, x[1], {.lengths = x[2], .mode = BagMode::Max});
                     return weighted * embedding_bag(x[0] % 3, x[1], {.lengths = x[2]}) + largest;
                   }});
}

void add_attention(std::vector<OpCase>& cases) {
  const std::vector<CaseInput> inputs{signed_of({kN, kM, fixed(2)}),
                                      signed_of({kN, fixed(3), fixed(2)}),
                                      signed_of({kN, fixed(3), fixed(2)})};
  cases.push_back({"attention", inputs, [](Trace&, LayerIn x) {
                     return scaled_dot_product_attention(x[0], x[1], x[2]) +
                            scaled_dot_product_attention(x[0], x[1], x[2],
                                                         {.is_causal = true, .scale = 0.3});
                   }});
  cases.push_back(
      {"attention_masked", inputs, [](Trace&, LayerIn x) {
         // The first query of a batch sees nothing.
         const Tensor rows = iota({x[0].size(1), 3}, 0), columns = iota({x[0].size(1), 3}, 1);
         return scaled_dot_product_attention(x[0], x[1], x[2], {.mask = columns < rows});
       }});
  cases.push_back(
      {"attention_of_groups",
       {signed_of({kN, fixed(4), kM, fixed(2)}), signed_of({kN, fixed(2), fixed(3), fixed(2)}),
        signed_of({kN, fixed(2), fixed(3), fixed(1)}),
        signed_of({kN, fixed(1), fixed(1), fixed(3)})},
       [](Trace&, LayerIn x) {
         return scaled_dot_product_attention(x[0], x[1], x[2], {.mask = x[3], .enable_gqa = true});
       }});
  // The gradients of the ops' own gradients are made of all scores.
  cases.push_back({"attention_gradient", inputs, [](Trace&, LayerIn x) {
                     const Tensor made =
                         scaled_dot_product_attention(x[0], x[1], x[2], {.is_causal = true});
                     const std::vector<Tensor> by = grad(mean(made * made), {x[0], x[1], x[2]});
                     return by[0] * mean(by[1] * by[1]) + mean(by[2] * by[2]);
                   }});
  cases.push_back({"rotary_embedding", {signed_of({kN, kM, fixed(4)})}, [](Trace&, LayerIn x) {
                     const Tensor places = arange(x[0].size(1)) * 3;
                     return rotary_embedding(x[0], places) +
                            rotary_embedding(exp(x[0]), places,
                                             {.form = RotaryForm::Interleaved, .base = 100});
                   }});
}

void add_segments(std::vector<OpCase>& cases) {
  const CaseInput lengths{LayerFill::Splits, {fixed(3)}};
  const std::vector<CaseInput> inputs{signed_of({kN, kM}), lengths};
  cases.push_back({"segment_totals", inputs, [](Trace&, LayerIn x) {
                     const Jagged rows{x[0], x[1]};
                     const Tensor real = unsqueeze(x[1] > 0, 1);
                     return segment_sum(rows) * segment_prod(rows) + segment_norm(rows) +
                            where(real, segment_mean(rows) * segment_max(rows) - segment_min(rows),
                                  0.0);
                   }});
  cases.push_back({"segment_softmax", inputs, [](Trace&, LayerIn x) {
                     const Jagged rows{x[0], x[1]};
                     return segment_softmax(rows).values * segment_cumsum(rows).values;
                   }});
  cases.push_back({"padding",
                   {signed_of({kN, kM}), lengths, positive_of({fixed(3), kN, kM})},
                   [](Trace&, LayerIn x) {
                     const Jagged rows{x[0], x[1]};
                     const Tensor dense = to_padded(rows, x[0].size(0), 0.5) * x[2];
                     return from_padded(dense * dense, x[1], x[0].size(0)).values;
                   }});
  cases.push_back({"jagged_attention",
                   {signed_of({kN, kM}), signed_of({kN, kM}), signed_of({kN, fixed(2)}), lengths},
                   [](Trace&, LayerIn x) {
                     return jagged_attention({x[0], x[3]}, x[1], x[2]).values;
                   }});
  cases.push_back({"jagged_attention_causal",
                   {signed_of({kN, kM}), signed_of({kN, kM}), signed_of({kN, fixed(2)}), lengths},
                   [](Trace&, LayerIn x) {
                     return jagged_attention({x[0], x[3]}, x[1], x[2], {.is_causal = true}).values;
                   }});
  cases.push_back({"places_in_segments", inputs, [](Trace&, LayerIn x) {
                     const Jagged rows{x[0], lengths_of(offsets_of(x[1]))};
                     const Jagged turned = with_values(rows, exp(x[0]));
                     const Tensor table = segment_sum(turned);
                     const Tensor number = segment_of_rows(rows) * 10 + place_of_rows(rows);
                     const Tensor mask = padding_mask(x[1], longest(rows));
                     return repeat_by_segment(table, rows) * x[0] *
                                unsqueeze(cast(number, DType::F64), 1) +
                            cast(sum(cast(mask, DType::I64)), DType::F64);
                   }});
  cases.push_back({"features_one_by_one",
                   {signed_of({kN, kM}), {LayerFill::Splits, {fixed(3), fixed(2)}}},
                   [](Trace&, LayerIn x) {
                     const KeyedJagged all{x[0], x[1]};
                     std::vector<Jagged> each = split_features(all);
                     each[1].values = exp(each[1].values);
                     const KeyedJagged joined = join_features({each[0], each[1], each[2]});
                     return joined.values *
                            unsqueeze(cast(feature_of_rows(all) + 1, DType::F64), 1);
                   }});
  cases.push_back({"same_batch",
                   {signed_of({kN, fixed(2)}), {LayerFill::Splits, {fixed(2), fixed(2)}}},
                   [](Trace&, LayerIn x) {
                     const KeyedJagged all = same_batch({exp(x[0]), x[1]});
                     return segment_sum(all_features(all));
                   },
                   2});
  cases.push_back({"features",
                   {signed_of({kN, fixed(2)}), {LayerFill::Splits, {fixed(3), fixed(2)}}},
                   [](Trace&, LayerIn x) {
                     const std::vector<Rank> owner{Rank{1}, Rank{0}, Rank{1}};
                     const KeyedJagged mine = exchange_features({exp(x[0]), x[1]}, owner);
                     const Tensor sums = segment_sum(all_features(mine));
                     const Tensor pooled = reshape(sums * sums, {2, 4, 2});
                     return exchange_back(pooled, owner) * 0.5;
                   },
                   2});
}

void add_windows(std::vector<OpCase>& cases) {
  // Padded so that windows fit for every size.
  cases.push_back({"unfold", {signed_of({kN, kM, fixed(2)})}, [](Trace&, LayerIn x) {
                     const Tensor wide = pad(pad(exp(x[0]), 1, 2, 3), 0, 1, 1);
                     return unfold(wide, {{1, 3, 2, 2}, {0, 2}}) * 3.0;
                   }});
  cases.push_back({"fold", {signed_of({kN, kM, fixed(3)})}, [](Trace&, LayerIn x) {
                     const SymInt rows = x[0].size(1) * 2 + 5;
                     return fold(exp(x[0]), {{1, 3, 2, 2}}, {rows});
                   }});
  cases.push_back({"conv1d",
                   {signed_of({kN, fixed(4), kM}), signed_of({fixed(6), fixed(2), fixed(3)}),
                    signed_of({fixed(6)})},
                   [](Trace&, LayerIn x) {
                     return conv1d(x[0], x[1], x[2],
                                   {.stride = {2}, .padding = {3}, .dilation = {2}, .groups = 2});
                   }});
  cases.push_back({"conv2d",
                   {signed_of({fixed(2), fixed(2), kN, kM}),
                    signed_of({fixed(3), fixed(2), fixed(2), fixed(3)}), signed_of({fixed(3)})},
                   [](Trace&, LayerIn x) {
                     const Tensor wide = pad(pad(x[0], 2, 0, 1), 3, 1, 0);
                     const Tensor y = conv2d(wide, x[1], x[2], {.same = true});
                     const Tensor w = slice(slice(x[1], 2, 0, 1), 3, 0, 1);  // [3, 2, 1, 1]
                     return conv2d(wide, w) * y;
                   }});
  cases.push_back(
      {"conv2d_batch",
       {signed_of({kN, kM, fixed(4), fixed(3)}), signed_of({fixed(3), kM, fixed(2), fixed(2)})},
       [](Trace&, LayerIn x) {
         return conv2d(x[0], x[1], {}, {.stride = {2, 1}, .padding = {1, 0}});
       }});
}

void add_pools(std::vector<OpCase>& cases) {
  cases.push_back({"max_pool1d", {signed_of({fixed(2), kN, kM})}, [](Trace&, LayerIn x) {
                     const Tensor wide = pad(x[0], 2, 1, 2);
                     return max_pool1d(wide, {.kernel = {3}, .stride = {2}, .padding = {1}});
                   }});
  cases.push_back({"max_pool2d", {signed_of({fixed(2), kN, kM})}, [](Trace&, LayerIn x) {
                     const PoolOptions options{.kernel = {2, 3},
                                               .stride = {2, 3},
                                               .padding = {1, 1},
                                               .dilation = {1, 2},
                                               .ceil_mode = true};
                     const Pooled pooled =
                         max_pool2d_with_indices(pad(pad(exp(x[0]), 1, 0, 1), 2, 0, 3), options);
                     return pooled.value * cast(pooled.indices + 1, DType::F64);
                   }});
  cases.push_back(
      {"max_pool1d_with_indices", {signed_of({fixed(2), kN, kM})}, [](Trace&, LayerIn x) {
         const Pooled pooled = max_pool1d_with_indices(
             pad(exp(x[0]), 2, 0, 2), {.kernel = {2}, .stride = {1}, .padding = {1}});
         return pooled.value * cast(pooled.indices + 1, DType::F64);
       }});
  cases.push_back({"adaptive_avg_pool1d", {signed_of({fixed(2), kN, kM})}, [](Trace&, LayerIn x) {
                     const Tensor wide = pad(exp(x[0]), 2, 1, 0);
                     return adaptive_avg_pool1d(wide, 3) * adaptive_avg_pool1d(wide, 1);
                   }});
  cases.push_back({"avg_pool1d", {signed_of({fixed(2), kN, kM})}, [](Trace&, LayerIn x) {
                     return avg_pool1d(pad(x[0], 2, 0, 2), {.kernel = {2}});
                   }});
  cases.push_back({"avg_pool2d", {signed_of({fixed(2), kN, kM})}, [](Trace&, LayerIn x) {
                     PoolOptions options{
                         .kernel = {3}, .stride = {2}, .padding = {1}, .ceil_mode = true};
                     const Tensor wide = pad(pad(x[0], 1, 0, 1), 2, 0, 1);
                     const Tensor y = avg_pool2d(wide, options);
                     options.count_include_pad = false;
                     return y + avg_pool2d(wide, options) * 2.0;
                   }});
  cases.push_back({"adaptive_pools", {signed_of({fixed(2), kN, kM})}, [](Trace&, LayerIn x) {
                     const Tensor wide = pad(pad(x[0], 1, 1, 0), 2, 0, 1);
                     return adaptive_avg_pool2d(wide, {2, 3}) + adaptive_max_pool2d(wide, {2, 1}) +
                            sum(adaptive_max_pool1d(wide, 1));
                   }});
}

void add_optimisers(std::vector<OpCase>& cases) {
  const std::vector<CaseInput> inputs{signed_of({kN, kM}), signed_of({kN, kM}), signed_of({kN, kM}),
                                      positive_of({kN, kM})};
  cases.push_back({"adam", inputs, [](Trace& t, LayerIn x) {
                     const AdamState state{scalar(t, 4), {x[2]}, {x[3]}};
                     const auto first = adam({x[0]}, {x[1]}, state, {.weight_decay = 0.1});
                     const auto second = adamw(first.params, {x[1]}, first.state, {.rate = 0.1});
                     return second.params[0];
                   }});
  cases.push_back({"sgd", inputs, [](Trace& t, LayerIn x) {
                     const SgdState state{scalar(t, 4), {x[2]}};
                     const SgdOptions options{
                         .rate = 0.3, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true};
                     return sgd({x[0]}, {x[1]}, state, options).params[0] * x[3];
                   }});
  cases.push_back({"adafactor",
                   {signed_of({kN, kM}), signed_of({kN, kM}), positive_of({kN, fixed(1)}),
                    positive_of({fixed(1), kM}), positive_of({kM})},
                   [](Trace& t, LayerIn x) {
                     const AdafactorState state{scalar(t, 4), {{x[2], x[3]}, {x[4]}}};
                     const Tensor row = sum(x[0], {0}), slope = sum(x[1], {0});
                     const auto out = adafactor({x[0], row}, {x[1], slope}, state);
                     return out.params[0] + out.params[1];
                   }});
  cases.push_back({"clipping", {signed_of({kN, kM}), signed_of({kM})}, [](Trace& t, LayerIn x) {
                     const Tensor step = scalar(t, 7);
                     const Clipped clipped = clip_grad_norm({x[0], x[1]}, 1.5);
                     const SymFloat rate = sequential_rate(step, 3, linear_rate(0.1, step, 3),
                                                           cosine_rate(0.1, step - 3, 9, 0.01));
                     return clip_grad_value({clipped.grads[0]}, 0.6)[0] * clipped.grads[1] +
                            clipped.norm * rate;
                   }});
  cases.push_back({"rates", {signed_of({kN, kM})}, [](Trace& t, LayerIn x) {
                     const Tensor step = scalar(t, 7);
                     const SymFloat rate =
                         constant_rate(0.3, step, 9, 0.5) +
                         step_rate(0.2, step, 3) * exponential_rate(0.1, step, 0.9);
                     return x[0] * x[0] * rate;
                   }});
  const std::vector<CaseInput> step{signed_of({kN, kM}), signed_of({kN, kM})};
  cases.push_back({"sgd_first_step", step, [](Trace&, LayerIn x) {
                     const SgdOptions options{.rate = 0.3, .momentum = 0.9};
                     return sgd({x[0]}, {x[1]}, sgd_start({x[0]}, options), options).params[0];
                   }});
  cases.push_back({"adam_first_step", step, [](Trace&, LayerIn x) {
                     return adam({x[0]}, {x[1]}, adam_start({x[0]})).params[0];
                   }});
  cases.push_back({"adafactor_first_step", step, [](Trace&, LayerIn x) {
                     return adafactor({x[0]}, {x[1]}, adafactor_start({x[0]})).params[0];
                   }});
  cases.push_back({"clipping_shares",
                   {signed_of({kN, kM})},
                   [](Trace&, LayerIn x) { return clip_grad_norm({x[0]}, 1.5, Group{}).grads[0]; },
                   2});
}

}  // namespace

void add_layers(std::vector<OpCase>& cases) {
  add_products_of_many(cases);
  add_norms(cases);
  add_losses(cases);
  add_embeddings(cases);
  add_attention(cases);
  add_segments(cases);
  add_windows(cases);
  add_pools(cases);
  add_optimisers(cases);
}

}  // namespace lockstep::worker::test
