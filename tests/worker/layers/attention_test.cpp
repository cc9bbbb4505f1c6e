// Attention as one op: beside the same made of other ops, for any number of threads, interpreted,
// compiled and on the emulated device.
#include <cmath>
#include <cstring>
#include <limits>

#include "emulated_device.h"
#include "ops/composed_attention.h"
#include "traced_run.h"

#include <lockstep/worker/compile/codegen/codegen.h>
#include <lockstep/worker/compile/run/row_exponentials.h>
#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/graph/half.h>
#include <lockstep/worker/tensor/layers/attention.h>
#include <lockstep/worker/tensor/trace/autocast.h>

namespace lockstep::worker::attention_test {
namespace {

using test::composed_attention;
using test::random_f64;
using test::refusal;
using test::TracedRun;
using In = const std::vector<Tensor>&;
using I = std::int64_t;

constexpr double kUnseen = -std::numeric_limits<double>::infinity();

Array as(DType dtype, const Array& x) {
  Array out(dtype, x.sizes());
  for (I i = 0; i < x.elements(); ++i) out.set(i, x.at(i));
  return out;
}
bool same_bits(const Array& a, const Array& b) {
  return a.dtype() == b.dtype() && a.sizes() == b.sizes() &&
         (a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}

/// Sizes of one attention: query [b, h, l, e], key [b, h / g, s, e], value [b, h / g, s, v].
struct Sizes {
  I b, h, g, l, s, e, v;
  [[nodiscard]] std::string text() const {
    std::string out;
    for (const I size : {b, h, g, l, s, e, v}) out += " " + std::to_string(size);
    return out;
  }
};
enum class Mask : std::uint8_t { None, Causal, Padding, Square, OfHeads, Added, AddedToKeys };
constexpr Mask kMasks[] = {Mask::None,    Mask::Causal, Mask::Padding,    Mask::Square,
                           Mask::OfHeads, Mask::Added,  Mask::AddedToKeys};

bool is_added(Mask mask) { return mask == Mask::Added || mask == Mask::AddedToKeys; }

/// Query, key, value, weights of the result, and the mask; every third key is not seen, and in a
/// Square mask query 1 sees nothing.
std::vector<Array> inputs_of(const Sizes& z, Mask mask, DType dtype) {
  std::vector<Array> out{
      random_f64(1, {z.b, z.h, z.l, z.e}), random_f64(2, {z.b, z.h / z.g, z.s, z.e}),
      random_f64(3, {z.b, z.h / z.g, z.s, z.v}), random_f64(4, {z.b, z.h, z.l, z.v})};
  for (Array& x : out) x = as(dtype, x);
  const auto seen = [](std::vector<I> sizes, auto&& is_seen) {
    Array mask_of = Array::zeros(DType::Bool, std::move(sizes));
    for (I i = 0; i < mask_of.elements(); ++i) mask_of.set(i, is_seen(i) ? 1 : 0);
    return mask_of;
  };
  if (mask == Mask::Padding)
    out.push_back(seen({z.b, 1, 1, z.s}, [&](I i) { return i % z.s < z.s - 2 * (i / z.s); }));
  if (mask == Mask::Square)
    out.push_back(seen({z.l, z.s}, [&](I i) { return i % 3 != 0 && i / z.s != 1; }));
  if (mask == Mask::OfHeads) out.push_back(seen({z.h, 1, z.s}, [](I i) { return i % 3 != 1; }));
  if (mask == Mask::Added) {
    out.push_back(as(dtype, random_f64(5, {z.b, 1, z.l, z.s})));
    for (I i = 0; i < out[4].elements(); i += 4) out[4].set(i, kUnseen);
  }
  if (mask == Mask::AddedToKeys) out.push_back(as(dtype, random_f64(6, {z.s})));
  return out;
}

AttentionOptions options_of(In x, Mask mask, bool groups, double scale) {
  AttentionOptions out{.is_causal = mask == Mask::Causal, .scale = scale, .enable_gqa = groups};
  if (x.size() > 4) out.mask = x[4];
  return out;
}

/// Each head of [b, h, ..] `times` times.
Tensor repeated(const Tensor& x, I times) {
  const auto sizes = x.sizes();
  const Tensor wide = expand(unsqueeze(x, 2), {sizes[0], sizes[1], times, sizes[2], sizes[3]});
  return reshape(wide, {sizes[0], sizes[1] * times, sizes[2], sizes[3]});
}

/// The op's result and gradients, then those of the composed one.
std::vector<Tensor> both(In x, Mask mask, I groups) {
  const Tensor of_op =
      scaled_dot_product_attention(x[0], x[1], x[2], options_of(x, mask, groups != 1, 0.7));
  const Tensor composed =
      composed_attention(x[0], groups == 1 ? x[1] : repeated(x[1], groups),
                         groups == 1 ? x[2] : repeated(x[2], groups),
                         x.size() > 4 ? x[4] : Tensor(), mask == Mask::Causal, 0.7);
  std::vector<Tensor> by{x[0], x[1], x[2]};
  if (is_added(mask)) by.push_back(x[4]);
  std::vector<Tensor> out;
  for (const Tensor& y : {of_op, composed}) {
    out.push_back(y);
    for (const Tensor& gradient : grad(sum(y * x[3]), by)) out.push_back(gradient);
  }
  return out;
}

/// Sizes around those of tiles (64 queries, 256 keys) and of blocks on a device (128 queries).
const Sizes kLarge[] = {{1, 2, 1, 131, 521, 5, 3},
                        {2, 3, 1, 64, 256, 8, 8},
                        {1, 1, 1, 257, 70, 1, 33},
                        {3, 1, 1, 1, 600, 4, 2}};

void as_composed(DType dtype, Mask mask, I groups, std::span<const Sizes> all, double bound) {
  const I heads = 2 * groups;
  // Heads are numbers, as they are in models; other sizes are symbols.
  const Sizes like{3, heads, groups, 7, 11, 13, 17};
  TracedRun program(
      inputs_of(like, mask, dtype), [&](Trace&, In x) { return both(x, mask, groups); },
      groups == 1 ? std::vector<I>{1} : std::vector<I>{1, 2, heads});
  for (Sizes z : all) {
    if (groups != 1) z.g = groups, z.h = heads;
    SCOPED_TRACE("mask " + std::to_string(static_cast<int>(mask)) + " sizes" + z.text());
    const auto out = program.run(inputs_of(z, mask, dtype), bound);
    const std::size_t half = out.size() / 2;
    for (std::size_t i = 0; i < half; ++i)
      EXPECT_TRUE(same({out[i]}, {out[half + i]}, bound)) << "output " << i;
  }
}

TEST(Attention, OfEverySizeAndMask_IsTheComposedOne) {
  std::vector<Sizes> all;
  for (const I l : {0, 1, 2, 5})
    for (const I s : {0, 1, 2, 5}) all.push_back({2, 3, 1, l, s, 4, 3});
  for (const I n : {0, 1}) {
    all.push_back({n, 3, 1, 3, 4, 2, 5});
    all.push_back({2, n, 1, 3, 4, 2, 5});
    all.push_back({2, 2, 1, 3, 4, n, 5});
    all.push_back({2, 2, 1, 3, 4, 2, n});
  }
  all.insert(all.end(), std::begin(kLarge), std::end(kLarge));
  for (const Mask mask : kMasks) as_composed(DType::F64, mask, 1, all, 1e-12);
}

TEST(Attention, OfGroups_IsThatOfRepeatedHeads) {
  const Sizes all[] = {{2, 0, 0, 3, 5, 4, 2}, {1, 0, 0, 130, 300, 8, 8}, {1, 0, 0, 1, 1, 1, 1},
                       {0, 0, 0, 2, 2, 2, 2}, {2, 0, 0, 0, 3, 2, 2},     {2, 0, 0, 3, 0, 2, 2}};
  for (const Mask mask : kMasks)
    for (const I groups : {2, 3}) as_composed(DType::F64, mask, groups, all, 1e-12);
}

TEST(Attention, OfF32_IsWithin1em5) {
  for (const Mask mask : {Mask::None, Mask::Causal, Mask::Padding, Mask::Added})
    as_composed(DType::F32, mask, 1, kLarge, 1e-5);
}

TEST(Attention, OfLowDtypes_IsThatOfF32RoundedOnce) {
  const Sizes z{2, 2, 1, 5, 70, 4, 3};
  for (const DType dtype : {DType::F16, DType::BF16}) {
    const std::vector<Array> inputs = inputs_of(z, Mask::Causal, dtype);
    TracedRun program(inputs, [&](Trace&, In x) {
      const AttentionOptions causal{.is_causal = true};
      const Tensor low = scaled_dot_product_attention(x[0], x[1], x[2], causal);
      std::vector<Tensor> wide;
      for (std::size_t k = 0; k < 3; ++k) wide.push_back(cast(x[k], DType::F32));
      const Tensor f32 = scaled_dot_product_attention(wide[0], wide[1], wide[2], causal);
      std::vector<Tensor> out{low, cast(f32, dtype)};
      {
        const Autocast on(x[0], dtype);
        out.push_back(scaled_dot_product_attention(wide[0], wide[1], wide[2], causal));
      }
      return out;
    });
    const auto out = program.run(inputs, 0);
    EXPECT_EQ(out[0].dtype(), dtype);
    EXPECT_TRUE(same_bits(out[0], out[1]));
    EXPECT_TRUE(same_bits(out[0], out[2]));
  }
}

TEST(Attention, OfAQueryThatSeesNothing_IsZero_WithoutGradient) {
  const Sizes z{1, 1, 1, 3, 300, 4, 2};
  std::vector<Array> inputs = inputs_of(z, Mask::Square, DType::F64);
  for (I j = 0; j < z.s; ++j) inputs[4].set(2 * z.s + j, j == 299 ? 1 : 0);  // the last key only
  TracedRun program(inputs, [](Trace&, In x) {
    const Tensor y = scaled_dot_product_attention(x[0], x[1], x[2], {.mask = x[4]});
    return std::vector{y, grad(sum(y * x[3]), {x[0]})[0]};
  });
  const auto out = program.run(inputs);
  for (I j = 0; j < z.v; ++j) {
    EXPECT_EQ(out[0].at(z.v + j), 0);
    EXPECT_EQ(out[0].at(2 * z.v + j), inputs[2].at(299 * z.v + j));
  }
  for (I j = 0; j < z.e; ++j) EXPECT_EQ(out[1].at(z.e + j), 0);
}

TEST(Attention, HasTheSameBits_InterpretedAndWithAnyNumberOfThreads) {
  const Sizes all[] = {
      {1, 1, 1, 200, 700, 16, 8}, {2, 3, 1, 130, 300, 8, 9}, {5, 8, 1, 65, 257, 4, 4}};
  Threads one(1), two(2, 1), three(3, 1), eight(8, 1);
  for (const DType dtype : {DType::F32, DType::F64})
    for (const Mask mask : {Mask::None, Mask::Causal, Mask::Added}) {
      // Only this op: products of their own have other bits in the interpreter.
      TracedRun program(inputs_of({3, 2, 1, 7, 11, 13, 17}, mask, dtype),
                        [&](Trace&, In x) {
                          const AttentionOptions options{.mask = x.size() > 4 ? x[4] : Tensor(),
                                                         .is_causal = mask == Mask::Causal};
                          const Tensor y = scaled_dot_product_attention(x[0], x[1], x[2], options);
                          std::vector<Tensor> out{y};
                          for (const Tensor& gradient : grad(sum(y * x[3]), {x[0], x[1], x[2]}))
                            out.push_back(gradient);
                          return out;
                        },
                        {1});
      for (const Sizes& z : all) {
        SCOPED_TRACE("mask " + std::to_string(static_cast<int>(mask)) + " sizes" + z.text());
        const std::vector<Array> arrays = inputs_of(z, mask, dtype);
        Inputs inputs;
        for (std::size_t i = 0; i < arrays.size(); ++i)
          inputs["in" + std::to_string(100 + i)] = arrays[i];
        const auto expected = run_interpreted(program.graph(), inputs);
        ASSERT_TRUE(expected.has_value()) << expected.error().text();
        const auto executable = compile(program.graph());
        for (Threads* threads : {&one, &two, &three, &eight}) {
          const auto got = run_compiled(*executable, inputs, *threads);
          ASSERT_TRUE(got.has_value()) << got.error().text();
          for (std::size_t i = 0; i < expected->size(); ++i)
            EXPECT_TRUE(same_bits((*got)[i], (*expected)[i]))
                << "output " << i << " with " << threads->count() << " threads";
        }
      }
    }
}

TEST(Attention, OnADevice_IsThatOfTheHost) {
  const Sizes all[] = {{2, 2, 1, 131, 70, 5, 3}, {1, 2, 2, 300, 257, 4, 4}, {2, 1, 1, 0, 3, 2, 2},
                       {2, 1, 1, 3, 0, 2, 2},    {1, 1, 1, 1, 1, 0, 1},     {1, 1, 1, 2, 2, 1, 0}};
  for (const Mask mask : kMasks) {
    TracedRun program(inputs_of({3, 2, 1, 7, 11, 13, 17}, mask, DType::F64),
                      [&](Trace&, In x) {
                        std::vector<Tensor> by{x[0], x[1], x[2]};
                        const Tensor y = scaled_dot_product_attention(
                            x[0], x[1], x[2], options_of(x, mask, false, 0.7));
                        std::vector<Tensor> out{y};
                        for (const Tensor& gradient : grad(sum(y * x[3]), by))
                          out.push_back(gradient);
                        return out;
                      },
                      {1});
    const auto made = generate(program.graph(), Target::Cuda);
    ASSERT_TRUE(made.has_value()) << made.error().text();
    auto built = build_emulated(*made);
    ASSERT_TRUE(built.has_value()) << built.error().text();
    const SystemClock clock;
    const auto device = std::make_shared<EmulatedDevice>();
    const auto loaded = Executable::load(std::move(built->program), built->units, clock, device);
    ASSERT_TRUE(loaded.has_value()) << loaded.error().text();
    for (Sizes z : all) {
      z.g = 1;
      SCOPED_TRACE("mask " + std::to_string(static_cast<int>(mask)) + " sizes" + z.text());
      const std::vector<Array> arrays = inputs_of(z, mask, DType::F64);
      Inputs inputs;
      for (std::size_t i = 0; i < arrays.size(); ++i)
        inputs["in" + std::to_string(100 + i)] = arrays[i];
      const auto expected = run_interpreted(program.graph(), inputs);
      const auto got = run_compiled(**loaded, inputs);
      ASSERT_TRUE(got.has_value()) << got.error().text();
      EXPECT_TRUE(same(*got, *expected, 1e-12));
    }
  }
}

/// A training step's worth: forward and backward over [2, 3, n, 8].
Graph graph_of_length() {
  return TracedRun(inputs_of({2, 3, 1, 7, 11, 13, 17}, Mask::Padding, DType::F32),
                   [](Trace&, In x) {
                     const Tensor y =
                         scaled_dot_product_attention(x[0], x[1], x[2], {.mask = x[4]});
                     return grad(sum(y * x[3]), {x[0], x[1], x[2]});
                   },
                   {1})
      .graph();
}

TEST(Attention, TakesMemoryThatIsLinearInTheLength) {
  const auto executable = compile(graph_of_length());
  std::vector<double> bytes;
  for (const I n : {256, 512, 1024, 2048}) {
    const std::vector<Array> arrays = inputs_of({2, 3, 1, n, n, 8, 8}, Mask::Padding, DType::F32);
    Inputs inputs;
    for (std::size_t i = 0; i < arrays.size(); ++i)
      inputs["in" + std::to_string(100 + i)] = arrays[i];
    ASSERT_TRUE(run_compiled(*executable, inputs).has_value());
    bytes.push_back(static_cast<double>(executable->bytes()));
  }
  for (std::size_t i = 2; i < bytes.size(); ++i)
    EXPECT_LE(bytes[i] - bytes[i - 1], 2.01 * (bytes[i - 1] - bytes[i - 2])) << i;
  EXPECT_LT(bytes.back(), 2.0 * 3 * 2048 * 2048);  // a quarter of the scores
}

TEST(Attention, HasNoBufferOfAllScores) {
  constexpr I kLength = 1 << 16;
  for (const Target target : {Target::Host, Target::Cuda}) {
    const auto program = generate(graph_of_length(), target);
    ASSERT_TRUE(program.has_value());
    const std::vector<Array> like = inputs_of({2, 3, 1, 1, 1, 1, 1}, Mask::Padding, DType::F32);
    for (const Buffer& buffer : program->buffers) {
      const auto elements =
          program->exprs.expr(buffer.elements).evaluate([&](shapes::Symbol symbol) {
            const auto binding =
                std::ranges::find(program->graph.symbols, symbol, &SymbolBinding::symbol);
            const bool length =
                binding->source == "in100.size(2)" || binding->source == "in101.size(2)";
            return std::optional<I>(length ? kLength : 2);
          });
      ASSERT_TRUE(elements.has_value());
      EXPECT_LT(*elements, kLength * 2048) << "value of %" << buffer.node;
    }
  }
}

TEST(Attention, SecondGradients_AreThoseOfTheComposedOne) {
  for (const Mask mask : kMasks) {
    TracedRun program(
        inputs_of({3, 2, 1, 7, 11, 13, 17}, mask, DType::F64),
        [&](Trace&, In x) {
          std::vector<Tensor> by{x[0], x[1], x[2], x[3]}, out;
          if (is_added(mask)) by.push_back(x[4]);
          const Tensor mask_of = x.size() > 4 ? x[4] : Tensor();
          for (const Tensor& y :
               {scaled_dot_product_attention(x[0], x[1], x[2], options_of(x, mask, false, 0.7)),
                composed_attention(x[0], x[1], x[2], mask_of, mask == Mask::Causal, 0.7)}) {
            const std::vector<Tensor> first = grad(sum(y * y * x[3]), by);
            Tensor loss = sum(first[0] * first[0]);
            for (std::size_t k = 1; k < first.size(); ++k)
              loss = loss + sum(first[k] * first[k] * first[k]);
            for (const Tensor& second : grad(loss, by)) out.push_back(second);
          }
          return out;
        },
        {1});
    for (const Sizes& z : {Sizes{2, 2, 1, 3, 4, 2, 3}, Sizes{1, 1, 1, 70, 5, 3, 2}}) {
      SCOPED_TRACE("mask " + std::to_string(static_cast<int>(mask)) + " sizes" + z.text());
      const auto out = program.run(inputs_of(z, mask, DType::F64), 1e-9);
      const std::size_t half = out.size() / 2;
      for (std::size_t i = 0; i < half; ++i)
        EXPECT_TRUE(same({out[i]}, {out[half + i]}, 1e-9)) << "gradient " << i;
    }
  }
}

TEST(Attention, BroadcastsLeadingDims_AndAMaskWithMoreOfThem) {
  const std::vector<Array> inputs{random_f64(1, {3, 1, 4, 2}), random_f64(2, {5, 6, 2}),
                                  random_f64(3, {6, 7}), random_f64(4, {2, 1, 1, 4, 6})};
  TracedRun program(inputs,
                    [](Trace&, In x) {
                      const Tensor y = scaled_dot_product_attention(x[0], x[1], x[2],
                                                                    {.mask = x[3], .scale = 0.7});
                      const Tensor z = composed_attention(x[0], x[1], x[2], x[3], false, 0.7);
                      std::vector<Tensor> out{y};
                      for (const Tensor& gradient : grad(sum(y * y), x)) out.push_back(gradient);
                      out.push_back(z);
                      for (const Tensor& gradient : grad(sum(z * z), x)) out.push_back(gradient);
                      return out;
                    },
                    {1});
  const auto out = program.run(inputs);
  ASSERT_EQ(out.size(), 10U);
  EXPECT_EQ(out[0].sizes(), (std::vector<I>{2, 3, 5, 4, 7}));
  for (std::size_t i = 0; i < 5; ++i) EXPECT_TRUE(same({out[i]}, {out[5 + i]}, 1e-12)) << i;
}

TEST(Attention, NotANumber_StaysInItsRow) {
  const Sizes z{1, 1, 1, 3, 300, 2, 2};
  std::vector<Array> inputs = inputs_of(z, Mask::None, DType::F64);
  inputs[0].set(2, std::nan(""));
  TracedRun program(inputs, [](Trace&, In x) {
    return std::vector{scaled_dot_product_attention(x[0], x[1], x[2])};
  });
  const auto out = program.run(inputs);
  for (I i = 0; i < out[0].elements(); ++i) EXPECT_EQ(std::isnan(out[0].at(i)), i / 2 == 1) << i;
}

TEST(Attention, Refusals) {
  const auto of = [](std::vector<std::vector<I>> sizes, AttentionOptions options) {
    std::vector<Array> inputs;
    for (const auto& each : sizes) inputs.push_back(random_f64(1, each));
    return refusal(inputs,
                   [&](Trace&, In x) {
                     AttentionOptions now = options;
                     if (x.size() > 3) now.mask = x[3];
                     return std::vector{scaled_dot_product_attention(x[0], x[1], x[2], now)};
                   },
                   {1, 2, 3, 4, 5, 6, 7, 8});
  };
  const AttentionOptions groups{.enable_gqa = true};
  EXPECT_EQ(of({{3, 4}, {5, 6}, {5, 7}}, {}),
            "scaled_dot_product_attention: widths 4 and 6 do not fit");
  EXPECT_EQ(of({{3, 4}, {5, 4}, {6, 7}}, {}),
            "scaled_dot_product_attention: numbers of keys 5 and 6 do not fit");
  EXPECT_EQ(of({{4, 3, 4}, {3, 5, 4}, {3, 5, 7}}, groups),
            "scaled_dot_product_attention: 4 heads of queries share no 3 heads of keys evenly");
  EXPECT_EQ(of({{3, 4}, {5, 4}, {5, 7}}, groups),
            "scaled_dot_product_attention: takes tensors [.., heads, rows, width], not f64[3, 4]");
  EXPECT_EQ(of({{3, 4}, {5, 4}, {5, 7}, {3, 6}}, {}),
            "scaled_dot_product_attention: sizes 5 and 6 do not fit");
}

template <class T>
double worst_error(double from, double to) {
  double worst = 0;
  std::vector<T> x;
  for (int i = 0; i <= 200000; ++i) x.push_back(static_cast<T>(from + (to - from) * i / 200000));
  std::vector<T> y = x;
  exponentials(std::span(y));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const long double exact = std::exp(static_cast<long double>(x[i]));
    const long double place =
        std::nextafter(static_cast<T>(exact), std::numeric_limits<T>::infinity()) -
        static_cast<T>(exact);
    worst = std::max(worst, static_cast<double>(std::abs(y[i] - exact) / place));
  }
  return worst;
}

TEST(Exponentials, AreWithin2ulp) {
  EXPECT_LE(worst_error<float>(-86.9, 87.9), 2);
  EXPECT_LE(worst_error<float>(-1, 1), 2);
  EXPECT_LE(worst_error<double>(-707.9, 708.9), 2);
  EXPECT_LE(worst_error<double>(-1, 1), 2);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  float ends[] = {-kInfinity, -88, 0, 89, kInfinity, std::nanf("")};
  exponentials(std::span<float>(ends));
  EXPECT_EQ(ends[0], 0);
  EXPECT_EQ(ends[1], 0);
  EXPECT_EQ(ends[2], 1);
  EXPECT_EQ(ends[3], kInfinity);
  EXPECT_EQ(ends[4], kInfinity);
  EXPECT_TRUE(std::isnan(ends[5]));
}

}  // namespace
}  // namespace lockstep::worker::attention_test
