// Autocast: which ops it takes to low precision, which to f32, and what the rest does with dtypes
// that differ; where it begins and ends; gradients; what is refused.
#include "function_runs.h"

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/language/movement_ops.h>
#include <lockstep/worker/tensor/language/order_ops.h>
#include <lockstep/worker/tensor/language/product_ops.h>
#include <lockstep/worker/tensor/layers/attention.h>
#include <lockstep/worker/tensor/layers/convolution.h>
#include <lockstep/worker/tensor/layers/losses.h>
#include <lockstep/worker/tensor/layers/norms.h>
#include <lockstep/worker/tensor/trace/autocast.h>

namespace lockstep::worker::autocast_test {
namespace {

using test::dynamic;
using test::must;
using test::named;
using test::Tensors;

/// Of x [s0, 4] of f32, w [4, 3] of f32, h [s0, 4] of bf16 and d [4, 3] of f64.
Result<Graph> traced(const std::function<void(Trace&, const Tensors&)>& body,
                     DType low = DType::BF16) {
  const Decision decision = test::DecisionBuilder()
                                .tensor("d", DType::F64, {4, 3})
                                .tensor("h", DType::BF16, {dynamic(5, 0), 4})
                                .tensor("w", DType::F32, {4, 3})
                                .tensor("x", DType::F32, {dynamic(5, 0), 4})
                                .get();
  TraceSetup setup = test::setup(decision);
  setup.low_precision = low;
  return trace(setup, [&](Trace& t) {
    const Tensors in{t.tensor_input(3), t.tensor_input(2), t.tensor_input(1), t.tensor_input(0)};
    check(in[0].size(0) == in[2].size(0));
    body(t, in);
    t.output("x", in[0]);
  });
}

TEST(Autocast, Products_AreLow_TheListIsF32_TheRestTakesTheWidest) {
  const Result<Graph> graph = traced([](Trace&, const Tensors& in) {
    const auto& [x, w, h, d] = std::tie(in[0], in[1], in[2], in[3]);
    const Autocast low(x, DType::BF16);
    const std::vector<std::pair<const char*, Tensor>> low_ones = {
        {"matmul", matmul(x, w)},
        {"of both", matmul(h, w)},
        {"einsum", einsum("ij,jk->ik", {x, w})},
        {"bmm", bmm(unsqueeze(x, 0), unsqueeze(w, 0))},
        {"mv", mv(x, amax(w, {1}))},
        {"attention", scaled_dot_product_attention(x, h, x)},
        {"segment_matmul", segment_matmul(x, stack({w, w}, 0), arange(*x.trace(), 2))},
        {"conv1d", conv1d(unsqueeze(x, 1), reshape(w, {4, 1, 3}))},
        {"conv1d with a bias", conv1d(unsqueeze(x, 1), reshape(w, {4, 1, 3}), amax(w, {1}))},
        {"conv1d by channel", conv1d(stack({x, x}, 1), reshape(w, {4, 1, 3}), {}, {.groups = 2})},
        {"conv2d", conv2d(reshape(h, {-1, 1, 2, 2}), reshape(w, {12, 1, 1, 1}))},
        {"relu of a product", relu(matmul(x, w))},
        {"gelu", gelu(h)},
        {"mean", mean(h)},
        {"number", h * 2.5},
        {"amax", amax(h)},
        {"sigmoid", sigmoid(h)},
        {"sin", sin(h)}};
    for (const auto& [name, y] : low_ones) EXPECT_EQ(y.dtype(), DType::BF16) << name;
    const std::vector<std::pair<const char*, Tensor>> f32_ones = {
        {"exp", exp(h)},
        {"log", log(h)},
        {"log1p", log1p(h)},
        {"log2", log2(h)},
        {"expm1", expm1(h)},
        {"rsqrt", rsqrt(h)},
        {"tan", tan(h)},
        {"pow", pow(h, 1.7)},
        {"sum", sum(h)},
        {"prod", prod(h, {0})},
        {"cumsum", cumsum(h, 0)},
        {"cumprod", cumprod(h, 0)},
        {"logcumsumexp", logcumsumexp(h, 0)},
        {"softmax", softmax(h, 1)},
        {"log_softmax", log_softmax(h, 1)},
        {"logsumexp", logsumexp(h, 1)},
        {"norm", norm(h)},
        {"softplus", softplus(h)},
        {"layer_norm", layer_norm(h, 1)},
        {"rms_norm", rms_norm(h, 1)},
        {"group_norm", group_norm(h, 2)},
        {"mse_loss", mse_loss(h, x)},
        {"smooth_l1_loss", smooth_l1_loss(h, h)},
        {"huber_loss", huber_loss(h, h)},
        {"nll_loss", nll_loss(h, argmax(x, 1))},
        {"binary_cross_entropy_with_logits", binary_cross_entropy_with_logits(h, h)},
        {"cross_entropy", cross_entropy(h, argmax(x, 1))},
        {"promoted", x + h},
        {"promoted, too", h * x},
        {"where", where(x > 0.0, h, x)},
        {"cat", cat({h, x}, 0)},
        {"f32 alone", x * 2.5},
        {"maximum", maximum(h, x)}};
    for (const auto& [name, y] : f32_ones) EXPECT_EQ(y.dtype(), DType::F32) << name;
    EXPECT_EQ(matmul(cast(x, DType::F64), d).dtype(), DType::F64);
    EXPECT_EQ((w * d).dtype(), DType::F64);
    EXPECT_EQ((x > h).dtype(), DType::Bool);
  });
  EXPECT_TRUE(graph.has_value()) << graph.error().text();
}

TEST(Autocast, EndsWithItsScope_NestsAndIsTurnedOff) {
  const Result<Graph> graph = traced(
      [](Trace&, const Tensors& in) {
        const auto product = [&] { return matmul(in[0], in[1]).dtype(); };
        EXPECT_EQ(product(), DType::F32);
        {
          const Autocast outer(in[0]);
          EXPECT_EQ(product(), DType::F16) << "of the device";
          {
            const Autocast inner(in[0], DType::BF16);
            EXPECT_EQ(product(), DType::BF16);
            const Autocast off(in[0], DType::F32);
            EXPECT_EQ(product(), DType::F32);
          }
          EXPECT_EQ(product(), DType::F16);
          try {
            const Autocast inner(in[0], DType::BF16);
            throw 1;
          } catch (int) {
            EXPECT_EQ(product(), DType::F16);
          }
        }
        EXPECT_EQ(product(), DType::F32);
        EXPECT_THROW((void)(in[0] + in[2]), TraceUsageError) << "dtypes that differ";
      },
      DType::F16);
  EXPECT_TRUE(graph.has_value()) << graph.error().text();
}

// The casts are nodes, so that other ranks' graphs differ where autocast does.
TEST(Autocast, IsPartOfTheFingerprint) {
  std::vector<shapes::Fingerprint> prints;
  for (const DType dtype : {DType::F32, DType::F16, DType::BF16})
    prints.push_back(must(traced([&](Trace& t, const Tensors& in) {
                       const Autocast low(in[0], dtype);
                       t.output("y", cast(matmul(in[0], in[1]), DType::F32));
                     })).fingerprint());
  EXPECT_NE(prints[0], prints[1]);
  EXPECT_NE(prints[1], prints[2]);
  EXPECT_NE(prints[0], prints[2]);
}

TEST(Autocast, GradientsGoBackThroughTheCasts_WhereverTheyAreAskedFor) {
  const auto loss_of = [](const Tensor& x, const Tensor& w, DType dtype) {
    const Autocast low(x, dtype);
    return mean(softplus(matmul(x, w)) * exp(matmul(x, w)));
  };
  const test::In in_x{DType::F32, {dynamic(9, 0), 4}}, in_w{DType::F32, {4, 3}};
  const test::Body body = [&](const Tensors& in) {
    Tensors out = grad(loss_of(in[0], in[1], DType::BF16), {in[0], in[1]});
    const Tensors plain = grad(loss_of(in[0], in[1], DType::F32), {in[0], in[1]});
    const Autocast low(in[0], DType::BF16);  // has no say in what grad() records
    for (const Tensor& g : grad(loss_of(in[0], in[1], DType::BF16), {in[0], in[1]}))
      out.push_back(g);
    EXPECT_EQ(matmul(in[0], in[1]).dtype(), DType::BF16) << "autocast is on after grad()";
    for (const Tensor& g : grad(loss_of(in[0], in[1], DType::F32), {in[0], in[1]}))
      out.push_back(g);
    out.insert(out.end(), plain.begin(), plain.end());
    return out;
  };
  OnRanks ranks(must(test::traced({in_x, in_w}, body)), 1);
  const std::uint64_t seed = 21081;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (const std::int64_t n : {1, 2, 5, 40}) {
    std::vector<Array> arrays{Array(DType::F32, {n, 4}), Array(DType::F32, {4, 3})};
    for (Array& array : arrays)
      for (std::int64_t i = 0; i < array.elements(); ++i)
        array.set(i, std::uniform_real_distribution<double>(-1, 1)(random));
    for (const auto run : {&OnRanks::interpreted, &OnRanks::compiled}) {
      const auto got = (ranks.*run)({named(arrays)}).ranks[0].value().value();
      for (std::size_t k = 0; k < 2; ++k) {
        ASSERT_EQ(got[k].dtype(), DType::F32);
        EXPECT_TRUE(same({got[k]}, {got[k + 2]}, 0));
        EXPECT_TRUE(same({got[k + 4]}, {got[k + 6]}, 0));
        EXPECT_TRUE(same({got[k]}, {got[k + 4]}, 2e-2));
        EXPECT_FALSE(same({got[k]}, {got[k + 4]}, 1e-6)) << "nothing was low";
      }
    }
  }
}

TEST(Autocast, MisuseIsRefusedWithItsLine) {
  const auto says = [](const Result<Graph>& graph, const std::string& words) {
    ASSERT_FALSE(graph.has_value());
    for (const std::string& part : {words, std::string("autocast_test.cpp:")})
      EXPECT_NE(graph.error().text().find(part), std::string::npos) << graph.error().text();
  };
  says(traced([](Trace&, const Tensors& in) { const Autocast a(in[0], DType::I64); }),
       "Autocast takes f16 and bf16, or f32 for none, not i64");
  says(traced([](Trace&, const Tensors&) { const Autocast a(Array::zeros(DType::F32, {2})); }),
       "Autocast takes a tensor of the frame");
}

}  // namespace
}  // namespace lockstep::worker::autocast_test
