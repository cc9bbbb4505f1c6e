// Arithmetic on f16 and bf16: each op is computed in f32 and rounded once. Against plain functions
// of floats on every value, interpreted, compiled for the host and as CUDA text.
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "function_runs.h"

#include <lockstep/collectives/base/half.h>
#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/graph/half.h>
#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/graph/shape_rules.h>
#include <lockstep/worker/tensor/language/movement_ops.h>
#include <lockstep/worker/tensor/language/op_builder.h>
#include <lockstep/worker/tensor/language/order_ops.h>
#include <lockstep/worker/tensor/language/product_ops.h>
#include <lockstep/worker/tensor/layers/clipping.h>
#include <lockstep/worker/tensor/layers/losses.h>
#include <lockstep/worker/tensor/layers/norms.h>

namespace lockstep::worker::half_arithmetic_test {
namespace {

using test::Body;
using test::dynamic;
using test::must;
using test::named;
using test::Tensors;
using Halves = std::vector<std::uint16_t>;

constexpr std::size_t kPatterns = 65536;

Array array_of(DType dtype, std::vector<std::int64_t> sizes, const Halves& bits) {
  Array out(dtype, std::move(sizes));
  std::memcpy(out.data(), bits.data(), out.bytes());
  return out;
}
Halves halves_of(const Array& array) {
  const auto* data = array.data_as<std::uint16_t>();
  return {data, data + array.elements()};
}
Halves all_patterns() {
  Halves out(kPatterns);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::uint16_t>(i);
  return out;
}
float wide(DType dtype, std::uint16_t bits) { return static_cast<float>(half_value(dtype, bits)); }

/// Neighbouring values differ by 1, also on both sides of 0; not-a-number only from itself.
std::int64_t apart(DType dtype, std::uint16_t a, std::uint16_t b) {
  const bool a_nan = std::isnan(half_value(dtype, a)), b_nan = std::isnan(half_value(dtype, b));
  if (a_nan || b_nan) return a_nan && b_nan ? 0 : 1 << 20;
  const auto place = [](std::uint16_t x) { return (x & 0x8000) != 0 ? -(x & 0x7fff) : x & 0x7fff; };
  return std::abs(place(a) - place(b));
}

/// A function's outputs in every way of running it.
struct Ways {
  std::vector<Array> interpreted, host, device;
};
Ways outputs(const std::vector<test::In>& in, const std::vector<Array>& arrays, const Body& body) {
  OnRanks ranks(must(test::traced(in, body)), 1);
  const auto of = [](OnRanks::Run run) { return run.ranks[0].value().value(); };
  return {of(ranks.interpreted({named(arrays)})), of(ranks.compiled({named(arrays)})),
          of(ranks.on_devices({named(arrays)}, OnRanks::Way::Staged))};
}

struct OfOne {
  const char* name;
  Tensor (*op)(const Tensor&, Line);
  float (*plain)(float);
  bool exact;  // f32 gives the same bits everywhere, so f16 and bf16 do
};
// clang-format off
const OfOne kOfOne[] = {
    {"neg", neg, [](float x) { return -x; }, true},
    {"abs", abs, [](float x) { return std::fabs(x); }, true},
    {"relu", relu, [](float x) { return x < 0 ? 0 : x; }, true},
    {"sign", sign, [](float x) { return x > 0 ? 1.0F : x < 0 ? -1.0F : 0.0F; }, true},
    {"floor", floor, [](float x) { return std::floor(x); }, true},
    {"ceil", ceil, [](float x) { return std::ceil(x); }, true},
    {"round", round, [](float x) { return std::nearbyint(x); }, true},
    {"round to 2 decimals", [](const Tensor& x, Line at) { return round(x, 2, at); },
     [](float x) { return std::nearbyint(x * 100) / 100; }, true},
    {"trunc", trunc, [](float x) { return std::trunc(x); }, true},
    {"sqrt", sqrt, [](float x) { return std::sqrt(x); }, true},
    {"rsqrt", rsqrt, [](float x) { return 1 / std::sqrt(x); }, true},
    {"exp", exp, [](float x) { return std::exp(x); }, false},
    {"exp2", exp2, [](float x) { return std::exp2(x); }, false},
    {"expm1", expm1, [](float x) { return std::expm1(x); }, false},
    {"log", log, [](float x) { return std::log(x); }, false},
    {"log2", log2, [](float x) { return std::log2(x); }, false},
    {"log1p", log1p, [](float x) { return std::log1p(x); }, false},
    {"tanh", tanh, [](float x) { return std::tanh(x); }, false},
    {"sigmoid", sigmoid, [](float x) { return 1 / (1 + std::exp(-x)); }, false},
    {"sin", sin, [](float x) { return std::sin(x); }, false},
    {"cos", cos, [](float x) { return std::cos(x); }, false},
    {"tan", tan, [](float x) { return std::tan(x); }, false},
    {"erf", erf, [](float x) { return std::erf(x); }, false},
};
// clang-format on

class HalfArithmetic : public testing::TestWithParam<DType> {
 protected:
  [[nodiscard]] static DType half() { return GetParam(); }
  [[nodiscard]] static std::uint16_t rounded(float x) { return half_bits(half(), x); }
  [[nodiscard]] static Array random_halves(std::mt19937_64& random,
                                           const std::vector<std::int64_t>& sizes, double size) {
    Array out(half(), sizes);
    for (std::int64_t i = 0; i < out.elements(); ++i)
      out.set(i, std::uniform_real_distribution<double>(-size, size)(random));
    return out;
  }
};

// The conversions that products and collectives are made of, against those that the reference uses.
TEST_P(HalfArithmetic, ManyAtATime_AreWidenedAndRoundedAsOne) {
  const std::uint64_t seed = 21071;
  SCOPED_TRACE("seed " + std::to_string(seed));
  const Halves patterns = all_patterns();
  std::vector<float> values(kPatterns);
  widen_halves(half(), patterns.data(), values.data(), kPatterns);
  for (std::size_t i = 0; i < kPatterns; ++i)
    ASSERT_EQ(std::bit_cast<std::uint32_t>(values[i]),
              std::bit_cast<std::uint32_t>(wide(half(), patterns[i])))
        << i;
  // Ties between neighbours, next to them, and any bits.
  std::mt19937_64 random(seed);
  std::vector<float> floats;
  for (std::size_t i = 0; i + 1 < kPatterns; ++i) {
    const float tie = values[i] + (values[i + 1] - values[i]) / 2;
    for (const float x :
         {values[i], tie, std::nextafter(tie, INFINITY), std::nextafter(tie, -INFINITY),
          std::bit_cast<float>(static_cast<std::uint32_t>(random()))})
      floats.push_back(x);
  }
  Halves got(floats.size());
  narrow_floats(half(), floats.data(), got.data(), static_cast<std::int64_t>(floats.size()));
  for (std::size_t i = 0; i < floats.size(); ++i)
    ASSERT_EQ(got[i], rounded(floats[i])) << floats[i];
}

TEST_P(HalfArithmetic, OfOneOperand_EveryValueIsF32sRoundedOnce) {
  const auto kMany = static_cast<std::int64_t>(kPatterns);
  const Ways got = outputs({{half(), {dynamic(kMany, 0)}}},
                           {array_of(half(), {kMany}, all_patterns())}, [](const Tensors& x) {
                             Tensors out;
                             for (const OfOne& one : kOfOne)
                               out.push_back(one.op(x[0], Line::current()));
                             return out;
                           });
  for (std::size_t k = 0; k < std::size(kOfOne); ++k) {
    const OfOne& one = kOfOne[k];
    SCOPED_TRACE(one.name);
    ASSERT_EQ(got.interpreted[k].dtype(), half());
    const Halves expected = halves_of(got.interpreted[k]);
    int off = 0;
    for (std::size_t i = 0; i < kPatterns; ++i) {
      const std::uint16_t plain = rounded(one.plain(wide(half(), static_cast<std::uint16_t>(i))));
      ASSERT_EQ(apart(half(), expected[i], plain), 0) << i;
      // Kernels give 0 for an exponential that f32 has no normal number for.
      if (!one.exact && std::abs(half_value(half(), plain)) < 0x1p-126) continue;
      // An infinity or a tiny number may come of it that a last place of f32 decides on.
      for (const Array* way : {&got.host[k], &got.device[k]}) {
        const std::int64_t distance = apart(half(), way->data_as<std::uint16_t>()[i], expected[i]);
        ASSERT_LE(distance, one.exact ? 0 : 1) << i;
        off += distance > 0 ? 1 : 0;
      }
    }
    EXPECT_LE(off, 300) << "a tie of f32 is rare";
  }
}

TEST_P(HalfArithmetic, OfTwoOperands_IsF32sRoundedOnce_InEveryBit) {
  const std::uint64_t seed = 21072;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  constexpr std::int64_t kCount = 100'000;
  Halves a(kCount), b(kCount);
  for (Halves* list : {&a, &b})
    for (std::uint16_t& bits : *list) bits = static_cast<std::uint16_t>(random());
  // Of like sizes, so that sums are no copies of the larger operand.
  for (std::size_t i = 0; i < a.size(); i += 2)
    b[i] = static_cast<std::uint16_t>(a[i] ^ (random() & 0x83ff));
  const test::In in{half(), {dynamic(kCount, 0)}};
  const Ways got = outputs({in, in}, {array_of(half(), {kCount}, a), array_of(half(), {kCount}, b)},
                           [](const Tensors& x) {
                             return Tensors{x[0] + x[1], x[0] - x[1],         x[0] * x[1],
                                            x[0] / x[1], maximum(x[0], x[1]), minimum(x[0], x[1]),
                                            x[0] < x[1], x[0] == x[1],        x[0] * 0.1,
                                            1.0 / x[0],  x[0] * x[1] + x[0]};
                           });
  const std::function<float(float, float)> plain[] = {
      [](float x, float y) { return x + y; },
      [](float x, float y) { return x - y; },
      [](float x, float y) { return x * y; },
      [](float x, float y) { return x / y; },
      [](float x, float y) { return x > y || x != x ? x : y; },
      [](float x, float y) { return x < y || x != x ? x : y; },
      nullptr,
      nullptr,
      [](float x, float) { return x * 0.1F; },  // the number is not rounded to the dtype
      [](float x, float) { return 1 / x; },
      [](float x, float y) { return static_cast<float>(half_value(half(), rounded(x * y))) + x; }};
  for (std::size_t k = 0; k < std::size(plain); ++k)
    for (const Ways& ways : {got})
      for (const auto* way : {&ways.interpreted, &ways.host, &ways.device})
        for (std::size_t i = 0; i < a.size(); ++i) {
          const float x = wide(half(), a[i]), y = wide(half(), b[i]);
          if (k == 6 || k == 7)
            ASSERT_EQ((*way)[k].data_as<bool>()[i], k == 6 ? x < y : x == y) << x << " " << y;
          else
            ASSERT_EQ((*way)[k].data_as<std::uint16_t>()[i], rounded(plain[k](x, y)))
                << "output " << k << " of " << x << " and " << y;
        }
}

// 4,096 numbers near 1: a total in the dtype itself would stop at 256 (bf16) or 2,048 (f16).
TEST_P(HalfArithmetic, TotalsAndScans_AddUpInF32) {
  const std::uint64_t seed = 21073;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (const std::int64_t n : {0, 1, 2, 5, 4096}) {
    Array x = random_halves(random, {n, 2}, 0.25);
    for (std::int64_t i = 0; i < x.elements(); ++i) x.set(i, x.at(i) + 1);
    const test::In in{half(), {dynamic(4096, 0), 2}};
    const Ways got = outputs({in}, {x}, [](const Tensors& t) {
      return Tensors{sum(t[0], {0}), mean(t[0], {0}), cumsum(t[0], 0), norm(t[0], 2, {0}),
                     index_add(2, iota({t[0].size(0)}, 0) * 0, t[0])};
    });
    std::vector<double> total(2, 0), square(2, 0), running;
    for (std::int64_t i = 0; i < x.elements(); ++i) {
      const auto c = static_cast<std::size_t>(i % 2);
      total[c] += x.at(i), square[c] += x.at(i) * x.at(i);
      running.push_back(total[c]);
    }
    const auto bound = [](double value) {
      return std::abs(value) * (half() == DType::F16 ? 0x1.01p-11 : 0x1.01p-8);
    };
    for (const auto* way : {&got.interpreted, &got.host, &got.device}) {
      for (std::int64_t c = 0; c < 2; ++c) {
        const auto at = static_cast<std::size_t>(c);
        EXPECT_NEAR((*way)[0].at(c), total[at], bound(total[at]));
        EXPECT_NEAR((*way)[3].at(c), std::sqrt(square[at]), bound(std::sqrt(square[at])));
        EXPECT_NEAR((*way)[4].at(c), total[at], bound(total[at]));
        const double average = total[at] / static_cast<double>(n);
        if (n > 0) {
          EXPECT_NEAR((*way)[1].at(c), average, bound(average));
        } else {
          EXPECT_TRUE(std::isnan((*way)[1].at(c)));
        }
      }
      for (std::int64_t i = 0; i < x.elements(); ++i)
        EXPECT_NEAR((*way)[2].at(i), running[static_cast<std::size_t>(i)],
                    bound(running[static_cast<std::size_t>(i)]));
    }
  }
}

/// Sums of products in f64, of what the halves hold: element [i, j] of a row-major product.
double product_at(const Array& a, const Array& b, std::int64_t i, std::int64_t j, std::int64_t k,
                  std::int64_t n) {
  double total = 0;
  for (std::int64_t p = 0; p < k; ++p) total += a.at(i * k + p) * b.at(p * n + j);
  return total;
}

TEST_P(HalfArithmetic, Products_AddUpInF32AndRoundOnce) {
  const std::uint64_t seed = 21074;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const std::vector<test::In> in{{half(), {dynamic(7, 0), dynamic(9, 0)}},
                                 {half(), {dynamic(9, 0), dynamic(6, 0)}},
                                 {DType::I64, {2}}};
  const Body body = [](const Tensors& x) {
    const Tensor twice = stack({x[1], x[1] * 2.0}, 0);
    return Tensors{matmul(x[0], x[1]),
                   matmul(transpose(transpose(x[0], 0, 1), 0, 1), x[1]),
                   transpose(matmul(transpose(x[1], 0, 1), transpose(x[0], 0, 1)), 0, 1),
                   matmul(stack({x[0], x[0]}, 0), twice),
                   segment_matmul(x[0], twice, x[2]),
                   einsum("ij,jk->ik", {x[0], x[1]})};
  };
  OnRanks ranks(must(test::traced(in, body)), 1);
  struct Sizes {
    std::int64_t m, k, n;
  };
  for (const auto& [m, k, n] :
       std::vector<Sizes>{{0, 2, 2}, {2, 0, 2}, {2, 2, 0}, {1, 1, 1}, {5, 2, 5}, {700, 513, 33}}) {
    const Array a = random_halves(random, {m, k}, 1), b = random_halves(random, {k, n}, 1);
    const std::int64_t first = m / 3;
    const std::vector<Array> arrays{a, b, integers({2}, {first, m - first})};
    const auto of = [](OnRanks::Run run) { return run.ranks[0].value().value(); };
    for (const auto& got :
         {of(ranks.interpreted({named(arrays)})), of(ranks.compiled({named(arrays)})),
          of(ranks.on_devices({named(arrays)}, OnRanks::Way::Staged))})
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
          const double expected = product_at(a, b, i, j, k, n);
          // Half a last place, and what sums of f32 are off by.
          const double bound =
              std::abs(expected) * (half() == DType::F16 ? 0x1.02p-11 : 0x1.02p-8) +
              1e-6 * static_cast<double>(k) + 0x1p-25;
          for (const std::size_t o : {0U, 1U, 2U, 5U})
            ASSERT_NEAR(got[o].at(i * n + j), expected, bound) << m << " " << k << " " << n;
          ASSERT_NEAR(got[3].at(i * n + j), expected, bound);
          ASSERT_NEAR(got[3].at((m + i) * n + j), 2 * expected, 2 * bound);
          ASSERT_NEAR(got[4].at(i * n + j), i < first ? expected : 2 * expected, 2 * bound);
        }
  }
}

// Everything between the inputs and the result is f32: no place of the dtype is lost on the way.
TEST_P(HalfArithmetic, FunctionsOfSeveralOps_RoundOnce) {
  const std::uint64_t seed = 21075;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  using Function = Tensor (*)(const Tensor&, const Tensor&);
  const std::vector<std::pair<const char*, Function>> functions = {
      {"gelu", [](const Tensor& x, const Tensor&) { return gelu(x); }},
      {"gelu_exact", [](const Tensor& x, const Tensor&) { return gelu_exact(x); }},
      {"silu", [](const Tensor& x, const Tensor&) { return silu(x); }},
      {"softplus", [](const Tensor& x, const Tensor&) { return softplus(x); }},
      {"elu", [](const Tensor& x, const Tensor&) { return elu(x, 1.3); }},
      {"softmax", [](const Tensor& x, const Tensor&) { return softmax(x, 1); }},
      {"log_softmax", [](const Tensor& x, const Tensor&) { return log_softmax(x, 1); }},
      {"logsumexp", [](const Tensor& x, const Tensor&) { return logsumexp(x, 0); }},
      {"var", [](const Tensor& x, const Tensor&) { return var(x, {1}); }},
      {"stddev", [](const Tensor& x, const Tensor&) { return stddev(x, {0}); }},
      {"norm", [](const Tensor& x, const Tensor&) { return norm(x, 3); }},
      {"layer_norm", [](const Tensor& x, const Tensor& w) { return layer_norm(x, 1, w, w); }},
      {"rms_norm", [](const Tensor& x, const Tensor& w) { return rms_norm(x, 1, w); }},
      {"mse_loss", [](const Tensor& x, const Tensor&) { return mse_loss(x, flip(x, {0})); }},
      {"clip_grad_norm",
       [](const Tensor& x, const Tensor&) { return clip_grad_norm({x}, 0.7).grads[0]; }},
      {"index_add",
       [](const Tensor& x, const Tensor&) { return index_add(x, 0, iota({x.size(0)}, 0) % 3, x); }},
  };
  for (const auto& [name, function] : functions) {
    SCOPED_TRACE(name);
    const test::In in{half(), {dynamic(40, 0), 24}}, weight{half(), {24}};
    const std::vector<Array> arrays{random_halves(random, {40, 24}, 3),
                                    random_halves(random, {24}, 1)};
    const Ways got = outputs({in, weight}, arrays, [&f = function](const Tensors& x) {
      const Tensor wide_x = cast(x[0], DType::F32), wide_w = cast(x[1], DType::F32);
      return Tensors{f(x[0], x[1]), cast(f(wide_x, wide_w), x[0].dtype())};
    });
    for (const auto* way : {&got.interpreted, &got.host, &got.device}) {
      ASSERT_EQ((*way)[0].dtype(), half());
      EXPECT_EQ(halves_of((*way)[0]), halves_of((*way)[1]));
    }
  }
}

// As of f32 on the same numbers, but for the roundings on the way.
TEST_P(HalfArithmetic, Gradients_AreThoseOfF32Rounded) {
  const std::uint64_t seed = 21076;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto model = [](const Tensor& x, const Tensor& w) {
    const Tensor h = gelu(matmul(x, w)) * sigmoid(matmul(x, w)) + sum(x, {1}, Keep::Keep);
    return mean(layer_norm(h, 1) * exp(h * 0.1) / (abs(h) + 1.0));
  };
  const std::vector<test::In> in{{half(), {dynamic(30, 0), 16}}, {half(), {16, 12}}};
  const std::vector<Array> arrays{random_halves(random, {30, 16}, 1),
                                  random_halves(random, {16, 12}, 0.5)};
  const Ways got = outputs(in, arrays, [&](const Tensors& x) {
    const Tensor a = cast(x[0], DType::F32), b = cast(x[1], DType::F32);
    Tensors out = grad(model(x[0], x[1]), {x[0], x[1]});
    for (const Tensor& each : grad(model(a, b), {a, b})) out.push_back(each);
    return out;
  });
  for (const auto* way : {&got.interpreted, &got.host, &got.device})
    for (std::size_t k = 0; k < 2; ++k) {
      ASSERT_EQ((*way)[k].dtype(), half());
      double most = 0;
      for (std::int64_t i = 0; i < (*way)[k].elements(); ++i)
        most = std::max(most, std::abs((*way)[k + 2].at(i)));
      EXPECT_GT(most, 0);
      for (std::int64_t i = 0; i < (*way)[k].elements(); ++i)
        ASSERT_NEAR((*way)[k].at(i), (*way)[k + 2].at(i),
                    (half() == DType::F16 ? 1e-2 : 5e-2) * most)
            << "gradient " << k;
    }
}

// A graph has no op of f16 and bf16 but those that are said to have them; the language has all.
TEST_P(HalfArithmetic, EveryOpOfFloats_TakesThem) {
  const Decision decision = test::DecisionBuilder()
                                .tensor("a", half(), {dynamic(4), dynamic(4)})
                                .tensor("b", DType::I64, {dynamic(4)})
                                .get();
  int widened_ops = 0;
  const auto graph = trace(test::setup(decision), [&](Trace& t) {
    const Tensor x = t.tensor_input(0), index = t.tensor_input(1);
    for (const OpRow& row : kOps) {
      const bool of_floats =
          row.takes == Takes::Any || row.takes == Takes::Number || row.takes == Takes::Float;
      if (!of_floats || row.operands < 1 || row.exprs != 0) continue;
      Node node;
      node.op = row.op;
      if (row.op == Op::IndexPut)
        node.ints = {static_cast<std::int64_t>(Put::Max)};
      else if (row.ints == 1 || row.ints == -1)
        node.ints = {row.op == Op::SearchSorted ? 1 : 0};
      if (takes_half(node)) continue;  // they have tests of their own
      std::vector<Tensor> operands(static_cast<std::size_t>(row.operands), x);
      if (row.op == Op::IndexPut) operands = {x, index, index_select(x, index)};
      SCOPED_TRACE(row.name);
      const Tensor out = emit(row.op, operands, node, Line::current());
      ++widened_ops;
      if (is_float(out.dtype())) {
        EXPECT_EQ(out.dtype(), half());
      }
      std::vector<TensorMeta> metas;
      for (const Tensor& operand : operands) metas.push_back(t.meta(operand.node()));
      Result<TensorMeta> refused = result_meta(node, metas);
      EXPECT_TRUE(refused.has_error());
    }
    t.output("x", x);
    t.output("b", index);
  });
  ASSERT_TRUE(graph.has_value()) << graph.error().text();
  EXPECT_GT(widened_ops, 45);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, HalfArithmetic, testing::Values(DType::F16, DType::BF16),
                         [](const auto& p) { return std::string(dtype_name(p.param)); });

}  // namespace
}  // namespace lockstep::worker::half_arithmetic_test
