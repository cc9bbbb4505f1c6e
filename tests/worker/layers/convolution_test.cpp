// Convolutions and pools against plain loops in double.
#include <algorithm>
#include <cmath>
#include <limits>

#include "traced_run.h"

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/language/movement_ops.h>
#include <lockstep/worker/tensor/layers/convolution.h>
#include <lockstep/worker/tensor/layers/pooling.h>

namespace lockstep::worker::convolution_test {
namespace {

using test::random_f64;
using test::refusal;
using test::TracedRun;
using In = const std::vector<Tensor>&;
using I = std::int64_t;
using Pair = std::pair<I, I>;  // of rows and columns

struct Walk {
  Pair kernel, stride{1, 1}, before{0, 0}, dilation{1, 1};
};
I places(I size, I kernel, I stride, I before, I after, I dilation) {
  return (size + before + after - dilation * (kernel - 1) - 1) / stride + 1;
}

/// Of x [N, C, H, W] and w [O, C / groups, KH, KW] with `after` zeros behind.
Array convolved(const Array& x, const Array& w, const Array& bias, const Walk& walk, Pair after,
                I groups) {
  const auto& [dil, str] = std::tie(walk.dilation, walk.stride);
  const I n = x.sizes()[0], c = x.sizes()[1], h = x.sizes()[2], v = x.sizes()[3], o = w.sizes()[0],
          cg = w.sizes()[1], kh = w.sizes()[2], kw = w.sizes()[3];
  const I oh = places(h, kh, str.first, walk.before.first, after.first, dil.first),
          ow = places(v, kw, str.second, walk.before.second, after.second, dil.second);
  Array out = Array::zeros(DType::F64, {n, o, oh, ow});
  for (I i = 0; i < out.elements(); ++i) {
    const I col = i % ow, row = i / ow % oh, to = i / (ow * oh) % o, sample = i / (ow * oh * o);
    double sum = bias.elements() > 0 ? bias.at(to) : 0;
    for (I k = 0; k < cg * kh * kw; ++k) {
      const I from = to / (o / groups) * cg + k / (kh * kw);
      const I a = row * str.first - walk.before.first + k / kw % kh * dil.first,
              b = col * str.second - walk.before.second + k % kw * dil.second;
      if (a < 0 || b < 0 || a >= h || b >= v) continue;
      sum += x.at(((sample * c + from) * h + a) * v + b) * w.at(to * cg * kh * kw + k);
    }
    out.set(i, sum);
  }
  return out;
}

TEST(Convolution, OfImages_IsTheSumOverEveryWindow) {
  const Array none = Array::zeros(DType::F64, {0});
  TracedRun program(
      {random_f64(1, {5, 4, 7, 8}), random_f64(2, {6, 2, 3, 2}), random_f64(3, {6}),
       random_f64(4, {9, 4, 1, 1})},
      [](Trace&, In t) {
        return std::vector{
            conv2d(t[0], t[1], t[2],
                   {.stride = {2, 1}, .padding = {2, 1}, .dilation = {1, 2}, .groups = 2}),
            conv2d(t[0], t[1], {}, {.same = true, .dilation = {2}, .groups = 2}),
            conv2d(t[0], t[3]), conv2d(t[0], t[3], {}, {.stride = {3}})};
      },
      {4, 6, 2, 3, 9, 1});
  for (const I n : {0, 1, 2, 5})
    for (const I h : {1, 2, 5})
      for (const I v : {1, 2, 5}) {
        const Array x = random_f64(7, {n, 4, h, v}), w = random_f64(8, {6, 2, 3, 2}),
                    bias = random_f64(9, {6}), one = random_f64(10, {9, 4, 1, 1});
        EXPECT_TRUE(same(program.run({x, w, bias, one}),
                         {convolved(x, w, bias, {{3, 2}, {2, 1}, {2, 1}, {1, 2}}, {2, 1}, 2),
                          convolved(x, w, none, {{3, 2}, {1, 1}, {2, 1}, {2, 2}}, {2, 1}, 2),
                          convolved(x, one, none, {{1, 1}}, {0, 0}, 1),
                          convolved(x, one, none, {{1, 1}, {3, 3}}, {0, 0}, 1)},
                         1e-12))
            << n << " " << h << " " << v;
      }
}

TEST(Convolution, AKernelThatDoesNotLieWithin_IsAnErrorOfThatCall) {
  TracedRun program(
      {random_f64(1, {5, 2, 7}), random_f64(2, {3, 2, 4})},
      [](Trace&, In t) { return std::vector{conv1d(t[0], t[1], {}, {.padding = {1}})}; },
      {2, 3, 4});
  EXPECT_EQ(program.run({random_f64(3, {5, 2, 2}), random_f64(4, {3, 2, 4})})[0].sizes(),
            (std::vector<I>{5, 3, 1}));
  const std::string error = program.failure({random_f64(3, {5, 2, 1}), random_f64(4, {3, 2, 4})});
  EXPECT_NE(error.find("unfold needs windows that lie within the tensor"), std::string::npos)
      << error;
}

/// One window after the other; `of`: from the elements of x in it, and their places in the plane.
template <class Of>
std::vector<Array> pooled(const Array& x, const Walk& walk, Pair counts, Of of) {
  const I planes = x.sizes()[0] * x.sizes()[1], h = x.sizes()[2], v = x.sizes()[3];
  const std::vector<I> sizes{x.sizes()[0], x.sizes()[1], counts.first, counts.second};
  std::vector<Array> out{Array::zeros(DType::F64, sizes), Array::zeros(DType::I64, sizes)};
  for (I i = 0; i < planes * counts.first * counts.second; ++i) {
    const I col = i % counts.second, row = i / counts.second % counts.first,
            plane = i / (counts.first * counts.second);
    std::vector<std::pair<double, I>> seen;
    for (I k = 0; k < walk.kernel.first * walk.kernel.second; ++k) {
      const I a = row * walk.stride.first - walk.before.first +
                  k / walk.kernel.second * walk.dilation.first,
              b = col * walk.stride.second - walk.before.second +
                  k % walk.kernel.second * walk.dilation.second;
      if (a >= 0 && b >= 0 && a < h && b < v)
        seen.emplace_back(x.at((plane * h + a) * v + b), a * v + b);
    }
    const auto [value, place] = of(seen);
    out[0].set(i, value);
    out[1].set(i, static_cast<double>(place));
  }
  return out;
}
std::pair<double, I> first_largest(const std::vector<std::pair<double, I>>& seen) {
  return *std::ranges::max_element(seen, {}, &std::pair<double, I>::first);
}

TEST(Pooling, TheLargestAndItsPlace_TheFirstOfEqualOnes) {
  const PoolOptions options{
      .kernel = {3, 2}, .stride = {2, 3}, .padding = {1, 1}, .dilation = {1, 2}, .ceil_mode = true};
  TracedRun program(
      {random_f64(1, {5, 3, 7, 8})},
      [&](Trace&, In t) {
        const Pooled got = max_pool2d_with_indices(t[0], options);
        return std::vector{got.value, got.indices, grad(sum(got.value * 2.0), {t[0]})[0]};
      },
      {3});
  for (const I n : {0, 1, 2})
    for (const I h : {1, 2, 5, 6})
      for (const I v : {2, 5, 6}) {  // of 1 a window sees nothing but padding
        Array x = random_f64(3, {n, 3, h, v});
        for (I i = 0; i < x.elements(); i += 2) x.set(i, i % 3 == 0 ? 2 : -1);  // many are equal
        const auto ceil_places = [](I size, I span, I stride) {
          I count = (size + 2 - span + stride - 1) / stride + 1;
          return (count - 1) * stride >= size + 1 ? count - 1 : count;
        };
        const Pair counts{ceil_places(h, 3, 2), ceil_places(v, 3, 3)};
        std::vector<Array> expected =
            pooled(x, {{3, 2}, {2, 3}, {1, 1}, {1, 2}}, counts, first_largest);
        Array slope = Array::zeros(DType::F64, x.sizes());
        for (I i = 0; i < expected[1].elements(); ++i) {
          const I at =
              i / (counts.first * counts.second) * h * v + static_cast<I>(expected[1].at(i));
          slope.set(at, slope.at(at) + 2);
        }
        expected.push_back(slope);
        EXPECT_TRUE(same(program.run({x}), expected, 1e-12)) << n << " " << h << " " << v;
      }
}

// torch 2.15: of [5, 3] the largest of column 0 of rows 0, 2, 4, and one window.
TEST(Pooling, InCeilMode_TheFirstWindowMayLiePartlyBehindX) {
  const PoolOptions options{
      .kernel = {3, 2}, .stride = {3, 4}, .dilation = {2, 4}, .ceil_mode = true};
  TracedRun program({random_f64(1, {2, 3, 9, 8})}, [&](Trace&, In t) {
    const Pooled got = max_pool2d_with_indices(t[0], options);
    return std::vector{got.value, got.indices};
  });
  for (const I h : {3, 4, 5, 6, 10})
    for (const I v : {2, 3, 4, 5, 9}) {
      const Array x = random_f64(4, {1, 2, h, v});
      const auto count = [](I size, I stride) {
        const I all = (size - 5 + stride - 1) / stride + 1;
        return (all - 1) * stride >= size ? all - 1 : all;
      };
      EXPECT_TRUE(same(
          program.run({x}),
          pooled(x, {{3, 2}, {3, 4}, {0, 0}, {2, 4}}, {count(h, 3), count(v, 4)}, first_largest),
          1e-12))
          << h << " " << v;
    }
}

TEST(Pooling, PaddingIsNeverTheLargest_WhateverXHolds) {
  const double least = -std::numeric_limits<double>::infinity();
  const auto row = [](const std::vector<double>& values) {
    return Array::of(DType::F64, {1, 4}, values);
  };
  const PoolOptions options{.kernel = {2}, .padding = {1}};
  TracedRun program({row({1, 2, 3, 4})}, [&](Trace&, In t) {
    const Pooled got = max_pool1d_with_indices(t[0], options),
                 bytes = max_pool1d_with_indices(cast(abs(t[0]) < 0.0, DType::U8), options);
    return std::vector{got.indices, bytes.indices, grad(sum(got.value), {t[0]})[0]};
  });
  const auto places = [](const std::vector<I>& values) {
    Array out(DType::I64, {1, 3});
    std::copy(values.begin(), values.end(), out.data_as<I>());
    return out;
  };
  EXPECT_TRUE(same(program.run({row({least, 1, 2, least})}),
                   {places({0, 2, 3}), places({0, 1, 3}), row({1, 0, 1, 1})}, 0));
  EXPECT_TRUE(same(program.run({row({least, least, least, least})}),
                   {places({0, 1, 3}), places({0, 1, 3}), row({1, 1, 0, 1})}, 0));
}

TEST(Pooling, AWindowThatSeesNothing_NamesAnElementOfX) {
  const PoolOptions options{.kernel = {2}, .padding = {1}, .dilation = {4}};
  TracedRun program({random_f64(1, {2, 3})}, [&](Trace&, In t) {
    const Pooled got = max_pool1d_with_indices(t[0], options);
    return std::vector{got.value, got.indices};
  });
  const std::vector<Array> got = program.run({random_f64(2, {1, 3})});
  ASSERT_EQ(got[0].elements(), 1);
  EXPECT_EQ(got[0].at(0), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(got[1].at(0) >= 0 && got[1].at(0) < 3) << got[1].at(0);
}

TEST(Pooling, AdaptiveMeansOfHalves_RoundOnce) {
  TracedRun program({random_f64(1, {2, 5, 7})}, [](Trace&, In t) {
    const Tensor halves = cast(t[0], DType::BF16);
    return std::vector{cast(adaptive_avg_pool2d(halves, {1}), DType::F64),
                       cast(mean(halves, {1, 2}, Keep::Keep), DType::F64)};
  });
  const std::vector<Array> got = program.run({random_f64(2, {200, 5, 7})});
  EXPECT_TRUE(same({got[0]}, {got[1]}, 0));
}

TEST(Pooling, AdaptiveLargest_SendsTheGradientToTheFirstOfEqualOnes) {
  TracedRun program({random_f64(1, {2, 5, 7})}, [](Trace&, In t) {
    const Tensor most = adaptive_max_pool2d(t[0], {1});
    return std::vector{most, grad(sum(most), {t[0]})[0]};
  });
  Array x = Array::zeros(DType::F64, {1, 3, 4}), slope = Array::zeros(DType::F64, {1, 3, 4});
  for (const I at : {3, 4, 9}) x.set(at, 5);  // row-major (0, 3) is first, in columns (1, 0)
  slope.set(3, 1);
  EXPECT_TRUE(
      same(program.run({x}), {Array::of(DType::F64, {1, 1, 1}, std::vector{5.0}), slope}, 0));
}

TEST(Windows, ANegativeNumberOfThem_IsAnErrorOfThatCall) {
  const auto windows = [](const Tensor& x, const SymInt& count) {
    return std::vector{unfold(x, {{.dim = 0, .size = 1, .count = count}})};
  };
  const auto number = [](I value) {
    Array out(DType::I64, {});
    *out.data_as<I>() = value;
    return out;
  };
  const std::vector<Array> like{random_f64(1, {6}), number(2)};
  EXPECT_EQ(refusal(like, [&](Trace&, In t) { return windows(t[0], -3); }),
            "unfold: there are no -3 windows");
  TracedRun program(like, [&](Trace&, In t) { return windows(t[0], item(t[1] + 0)); });
  const std::string text = program.failure({random_f64(1, {6}), number(-3)});
  EXPECT_NE(text.find("convolution_test.cpp:"), std::string::npos) << text;
  EXPECT_NE(text.find("at least 0"), std::string::npos) << text;
}

TEST(Pooling, Means_CountWhatTheOptionsSay) {
  PoolOptions options{.kernel = {3}, .stride = {2}, .padding = {1}};
  TracedRun program({random_f64(1, {5, 3, 7, 8})},
                    [&](Trace&, In t) {
                      std::vector<Tensor> out{avg_pool2d(t[0], options)};
                      options.count_include_pad = false;
                      out.push_back(avg_pool2d(t[0], options));
                      options.divisor = 7;
                      out.push_back(avg_pool2d(t[0], options));
                      out.push_back(adaptive_avg_pool2d(t[0], {1}));
                      return out;
                    },
                    {3});
  for (const I h : {1, 2, 5})
    for (const I v : {1, 2, 5}) {
      const Array x = random_f64(4, {2, 3, h, v});
      const Walk walk{{3, 3}, {2, 2}, {1, 1}};
      const Pair counts{places(h, 3, 2, 1, 1, 1), places(v, 3, 2, 1, 1, 1)};
      const auto by = [&](const std::function<double(double, std::size_t)>& f) {
        return pooled(x, walk, counts, [&](const auto& seen) {
          double sum = 0;
          for (const auto& [value, place] : seen) sum += value;
          return std::pair<double, I>(f(sum, seen.size()), 0);
        })[0];
      };
      Array all = Array::zeros(DType::F64, {2, 3, 1, 1});
      for (I i = 0; i < x.elements(); ++i)
        all.set(i / (h * v), all.at(i / (h * v)) + x.at(i) / static_cast<double>(h * v));
      EXPECT_TRUE(same(program.run({x}),
                       {by([](double sum, std::size_t) { return sum / 9; }),
                        by([](double sum, std::size_t n) { return sum / static_cast<double>(n); }),
                        by([](double sum, std::size_t) { return sum / 7; }), all},
                       1e-12))
          << h << " " << v;
    }
}

TEST(Convolution, WhatDoesNotFit_IsRefusedInOneSentence) {
  const std::vector<Array> x{random_f64(1, {2, 4, 5}), random_f64(2, {6, 2, 3}),
                             random_f64(3, {5, 2, 3}), Array::zeros(DType::F32, {6, 2, 3})};
  const auto says = [&](const std::function<Tensor(In)>& body, const std::string& words) {
    EXPECT_EQ(refusal(x, [&](Trace&, In t) { return std::vector{body(t)}; }, {2, 3, 4, 5, 6}),
              words);
  };
  says([](In t) { return conv1d(t[0], t[1]); },
       "conv1d: f64[2, 4, 5] does not fit the weight f64[6, 2, 3] in 1 groups: each group has as "
       "many channels as the weight's second dim says");
  says([](In t) { return conv1d(t[0], t[2], {}, {.groups = 2}); },
       "conv1d: f64[2, 4, 5] does not fit the weight f64[5, 2, 3] in 2 groups: each group gives as "
       "many channels");
  says([](In t) { return conv1d(t[0], t[3], {}, {.groups = 2}); },
       "conv1d: dtypes differ: f64 and f32; cast() one of them");
  says([](In t) { return conv1d(t[0], t[1], {}, {.stride = {0}, .groups = 2}); },
       "conv1d: stride is 0, and has to be at least 1");
  says([](In t) { return conv1d(t[0], t[1], {}, {.dilation = {3}, .groups = 2}); },
       "conv1d: unfold: windows over 7 elements do not lie within 5");
  says([](In t) { return max_pool1d(t[0], {.kernel = {2}, .padding = {2}}); },
       "max_pool1d: padding 2 is more than half of kernel 2");
  says(
      [](In t) {
        return avg_pool1d(t[0], {.kernel = {2, 2}});
      },
      "avg_pool1d: kernel has 2 numbers; give one, or one for each of 1 dims");
  says([](In t) { return avg_pool1d(t[0], {.kernel = {2}, .dilation = {2}}); },
       "avg_pool1d: has no dilation");
  says([](In t) { return max_pool1d(t[0], {.kernel = {6}}); },
       "max_pool1d: a window of 6 elements does not lie within 5 and the padding");
}

}  // namespace
}  // namespace lockstep::worker::convolution_test
