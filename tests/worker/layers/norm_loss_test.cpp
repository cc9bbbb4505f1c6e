// Norms and losses against plain loops in double.
#include <cmath>
#include <limits>
#include <numeric>

#include "on_ranks.h"
#include "traced_run.h"

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/layers/losses.h>
#include <lockstep/worker/tensor/layers/norms.h>

namespace lockstep::worker::norm_loss_test {
namespace {

using test::random_f64;
using test::refusal;
using test::TracedRun;
using In = const std::vector<Tensor>&;
using I = std::int64_t;

constexpr double kInf = std::numeric_limits<double>::infinity();

/// `parts` runs of `length` elements, each with mean 0 and variance 1 (but for eps).
Array normalised(const Array& x, I parts, I length, double eps, bool centre = true) {
  Array out(DType::F64, x.sizes());
  for (I p = 0; p < parts; ++p) {
    double mean = 0, square = 0;
    for (I i = 0; centre && i < length; ++i)
      mean += x.at(p * length + i) / static_cast<double>(length);
    for (I i = 0; i < length; ++i)
      square += std::pow(x.at(p * length + i) - mean, 2) / static_cast<double>(length);
    for (I i = 0; i < length; ++i)
      out.set(p * length + i, (x.at(p * length + i) - mean) / std::sqrt(square + eps));
  }
  return out;
}

TEST(Norms, LastDims_AsByLoops_AtSizes0125) {
  const double tiny = std::numeric_limits<double>::epsilon();
  TracedRun program(
      {random_f64(1, {3, 4, 6}), random_f64(2, {4, 6}), random_f64(3, {4, 6})}, [](Trace&, In x) {
        return std::vector{layer_norm(x[0], 2), layer_norm(x[0], 2, x[1], x[2], 0.3),
                           layer_norm(x[0], 1), rms_norm(x[0], 2, x[1], 0.2), rms_norm(x[0], 1)};
      });
  EXPECT_TRUE(program.graph().guards.empty());
  for (const I n : {0, 1, 2, 5})
    for (const I m : {0, 1, 2, 5}) {
      const Array x = random_f64(4, {n, 2, m}), w = random_f64(5, {2, m}),
                  b = random_f64(6, {2, m});
      std::vector<Array> expected{normalised(x, n, 2 * m, 1e-5), normalised(x, n, 2 * m, 0.3),
                                  normalised(x, n * 2, m, 1e-5),
                                  normalised(x, n, 2 * m, 0.2, false),
                                  normalised(x, n * 2, m, tiny, false)};
      for (I i = 0; i < x.elements(); ++i) {
        expected[1].set(i, expected[1].at(i) * w.at(i % (2 * m)) + b.at(i % (2 * m)));
        expected[3].set(i, expected[3].at(i) * w.at(i % (2 * m)));
      }
      EXPECT_TRUE(same(program.run({x, w, b}), expected, 1e-11)) << n << " " << m;
    }
}

TEST(Norms, SmallVariancesAndLargeMeans_LoseNoDigits) {
  TracedRun program({random_f64(1, {3, 4})},
                    [](Trace&, In x) { return std::vector{layer_norm(x[0], 1)}; });
  for (const double scale : {1e-3, 1e-2, 1.0}) {
    Array x = random_f64(7, {2, 5}), far = x.clone();
    for (I i = 0; i < x.elements(); ++i) {
      x.set(i, x.at(i) * scale);
      far.set(i, x.at(i) + 0x1p20);
      x.set(i, far.at(i) - 0x1p20);  // as it is beside the large mean
    }
    const std::vector<Array> expected{normalised(x, 2, 5, 1e-5)};
    EXPECT_TRUE(same(program.run({x}), expected, 1e-12)) << scale;
    EXPECT_TRUE(same(program.run({far}, 1e-6), expected, 1e-6)) << scale;
  }
}

TEST(Norms, GroupsOfChannels_AsByLoops) {
  TracedRun program({random_f64(1, {3, 6, 2, 5}), random_f64(2, {6}), random_f64(3, {6})},
                    [](Trace&, In x) {
                      return std::vector{group_norm(x[0], 3, x[1], x[2], 0.1), group_norm(x[0], 1),
                                         group_norm(x[0], 2)};
                    });
  for (const I n : {0, 1, 2, 5})
    for (const I m : {0, 1, 2, 5}) {
      const Array x = random_f64(4, {n, 6, m, 2}), w = random_f64(5, {6}), b = random_f64(6, {6});
      std::vector<Array> expected{normalised(x, n * 3, 4 * m, 0.1), normalised(x, n, 12 * m, 1e-5),
                                  normalised(x, n * 2, 6 * m, 1e-5)};
      for (I i = 0; i < x.elements(); ++i) {
        const I channel = i / (2 * m) % 6;
        expected[0].set(i, expected[0].at(i) * w.at(channel) + b.at(channel));
      }
      EXPECT_TRUE(same(program.run({x, w, b}), expected, 1e-11)) << n << " " << m;
    }
}

std::string refused(const std::vector<Array>& like, const std::function<Tensor(In)>& body) {
  return refusal(like, [&](Trace&, In x) { return std::vector{body(x)}; }, {1, 2, 3, 4, 5, 6, 7});
}

TEST(Norms, WhatDoesNotFit_IsRefused) {
  const std::vector<Array> x{random_f64(1, {2, 6}), random_f64(1, {5}), integers({2}, {1, 2})};
  EXPECT_EQ(refused(x, [](In t) { return layer_norm(t[0], 1, t[1]); }),
            "layer_norm: weight is f64[5], and needs the sizes f64[6]");
  EXPECT_EQ(refused(x, [](In t) { return layer_norm(t[0], 3); }),
            "layer_norm: 3 dims of f64[2, 6] cannot be normalised over; name 1 to 2");
  EXPECT_EQ(refused(x, [](In t) { return rms_norm(t[2], 1); }),
            "rms_norm: takes floating-point numbers, not i64[2]; cast first");
  EXPECT_EQ(refused(x, [](In t) { return group_norm(t[0], 4); }),
            "group_norm: 4 groups do not share 6 channels equally");
  EXPECT_EQ(refused(x, [](In t) { return group_norm(t[1], 1); }),
            "group_norm: takes [N, C, ..], not f64[5]; the second dim has the channels");
}

/// x [n, classes, m] with labels [n, m].
struct Labelled {
  Array x, labels, weight;
  I n, classes, m;
  [[nodiscard]] double at(I i, I c, I j) const { return x.at((i * classes + c) * m + j); }
};
Labelled labelled(I n, I m, std::uint64_t seed) {
  Labelled out{random_f64(seed, {n, 3, m}),
               Array::zeros(DType::I64, {n, m}),
               random_f64(seed + 1, {3}),
               n,
               3,
               m};
  const std::vector<double> labels{2, 0, -7, 1, 1, 2, -7, 0};
  for (I i = 0; i < n * m; ++i) out.labels.set(i, labels[static_cast<std::size_t>(i % 8)]);
  return out;
}

struct EntropyCase {
  bool weighted;
  double smoothing;
};
const std::vector<EntropyCase> kEntropyCases{{false, 0}, {true, 0}, {false, 0.3}, {true, 0.3}};

/// The loss of each element, times its weight, and the sum of the weights; -7 is ignored. Of
/// logits, or of log-probabilities.
std::pair<Array, double> entropy_by_loops(const Labelled& in, const EntropyCase& how, bool logits) {
  Array out = Array::zeros(DType::F64, {in.n, in.m});
  double total = 0;
  for (I i = 0; i < in.n; ++i)
    for (I j = 0; j < in.m; ++j) {
      const I label = static_cast<I>(in.labels.at(i * in.m + j));
      if (label == -7) continue;
      double sum = 0;
      for (I c = 0; c < 3; ++c) sum += std::exp(in.at(i, c, j));
      const auto loss = [&](I c) {
        const double weight = how.weighted ? in.weight.at(c) : 1;
        return weight * ((logits ? std::log(sum) : 0) - in.at(i, c, j));
      };
      total += how.weighted ? in.weight.at(label) : 1;
      const double even = (loss(0) + loss(1) + loss(2)) / 3;
      out.set(i * in.m + j, (1 - how.smoothing) * loss(label) + how.smoothing * even);
    }
  return {out, total};
}

Array one(double value) { return Array::of(DType::F64, {}, std::vector{value}); }
double sum_of(const Array& x) {
  double total = 0;
  for (I i = 0; i < x.elements(); ++i) total += x.at(i);
  return total;
}

TEST(Losses, OfLabels_AsByLoops_AtSizes0125) {
  TracedRun program(
      {random_f64(1, {6, 3, 4}), Array::zeros(DType::I64, {6, 4}), random_f64(1, {3})},
      [](Trace&, In x) {
        std::vector<Tensor> out;
        for (const EntropyCase& how : kEntropyCases)
          for (const Reduction reduction : {Reduction::None, Reduction::Sum, Reduction::Mean}) {
            const Tensor weight = how.weighted ? x[2] : Tensor();
            out.push_back(cross_entropy(x[0], x[1],
                                        {.weight = weight,
                                         .ignore_index = -7,
                                         .reduction = reduction,
                                         .label_smoothing = how.smoothing}));
            if (how.smoothing == 0)
              out.push_back(nll_loss(
                  x[0], x[1], {.weight = weight, .ignore_index = -7, .reduction = reduction}));
          }
        return out;
      },
      {3});
  for (const I n : {0, 1, 2, 5})
    for (const I m : {0, 1, 2, 5}) {
      const Labelled in = labelled(n, m, 8);
      std::vector<Array> expected;
      for (const EntropyCase& how : kEntropyCases)
        for (const Reduction reduction : {Reduction::None, Reduction::Sum, Reduction::Mean})
          for (const bool logits : {true, false}) {
            if (!logits && how.smoothing != 0) continue;
            const auto [each, weights] = entropy_by_loops(in, how, logits);
            expected.push_back(reduction == Reduction::None  ? each
                               : reduction == Reduction::Sum ? one(sum_of(each))
                                                             : one(sum_of(each) / weights));
          }
      EXPECT_TRUE(same(program.run({in.x, in.labels, in.weight}), expected, 1e-11))
          << n << " " << m;
    }
}

TEST(Losses, OfOneVector_HaveTheirClassesInDim0) {
  TracedRun program({random_f64(1, {4}), Array::zeros(DType::I64, {})}, [](Trace&, In x) {
    return std::vector{cross_entropy(x[0], x[1]), cross_entropy(x[0], softmax(x[0], 0))};
  });
  const Array x = random_f64(2, {3});
  double sum = 0, entropy = 0;
  for (I i = 0; i < 3; ++i) sum += std::exp(x.at(i));
  for (I i = 0; i < 3; ++i) entropy += std::exp(x.at(i)) / sum * (std::log(sum) - x.at(i));
  EXPECT_TRUE(same(program.run({x, integers({}, {2})}),
                   {one(std::log(sum) - x.at(2)), one(entropy)}, 1e-12));
}

// 4,096 numbers 10000.1 have no variance, and 10,000 numbers about 10000 the one of their digits.
TEST(Norms, RowsFarFromZero_HaveTheVarianceOfTheirDifferences) {
  constexpr I n = 10'000;
  TracedRun program(
      {Array::zeros(DType::F32, {1, 4096}), Array::zeros(DType::F32, {1, n})}, [](Trace&, In x) {
        return std::vector{var(x[0], {1}), layer_norm(x[0], 1), var(x[1], {1}), mean(x[1], {1})};
      });
  Array equal(DType::F32, {1, 4096}), far(DType::F32, {1, n});
  double total = 0;
  for (I i = 0; i < equal.elements(); ++i) equal.set(i, 10000.1);
  for (I i = 0; i < n; ++i) {
    far.set(i, 10000 + std::sin(static_cast<double>(i)));
    total += far.at(i);
  }
  const double middle = total / n;
  double squares = 0;
  for (I i = 0; i < n; ++i) squares += std::pow(far.at(i) - middle, 2);
  const auto out = program.run({equal, far});
  EXPECT_EQ(out[0].at(0), 0);
  for (I i = 0; i < equal.elements(); ++i) ASSERT_EQ(out[1].at(i), 0) << i;
  const double variance = squares / (n - 1), unit = 0x1p-24;
  EXPECT_NEAR(out[2].at(0), variance,
              2 * unit * std::log2(n) * variance + 25 * unit * unit * middle * middle);
  EXPECT_NEAR(out[3].at(0), middle, 2 * unit * middle);
}

TEST(Norms, RowsOfEqualNumbers_AreTheirMeanAndHaveNoVariance) {
  const double values[] = {0.1, 123.456, 10000.1, 1e8 + 8};
  TracedRun program({Array::zeros(DType::F32, {4, 3})}, [](Trace&, In x) {
    return std::vector{mean(x[0], {1}), var(x[0], {1}), amax(abs(layer_norm(x[0], 1)), {1}),
                       mean(transpose(x[0], 0, 1), {0})};
  });
  for (const I n : {3, 100, 4096, 1'000'003}) {
    Array x(DType::F32, {4, n});
    for (I i = 0; i < x.elements(); ++i) x.set(i, values[i / n]);
    const auto out = program.run({x});
    for (I row = 0; row < 4; ++row) {
      EXPECT_EQ(out[0].at(row), x.at(row * n)) << n;
      EXPECT_EQ(out[1].at(row), 0) << n;
      EXPECT_EQ(out[2].at(row), 0) << n;
      EXPECT_EQ(out[3].at(row), x.at(row * n)) << n;
    }
  }
}

TEST(Losses, OfLogitsFarFromZero_AreThoseOfTheirDifferences) {
  for (const DType dtype : {DType::F32, DType::F64}) {
    TracedRun program({Array::zeros(dtype, {2, 3}), Array::zeros(DType::I64, {2})},
                      [](Trace&, In x) {
                        const Tensor loss = cross_entropy(x[0], x[1]);
                        return std::vector{log_softmax(x[0], 1),
                                           softmax(x[0], 1),
                                           loss,
                                           nll_loss(log_softmax(x[0], 1), x[1]),
                                           cross_entropy(x[0], x[1], {.label_smoothing = 0.3}),
                                           grad(loss, {x[0]})[0]};
                      });
    const double log_sum = std::log(2 + std::exp(-8.0));
    const double p[] = {std::exp(-log_sum), std::exp(-log_sum), std::exp(-8 - log_sum)};
    for (const double far : {0.0, 100.0, 1e4, -1e4, 1e6, 1e8, -1e8}) {
      const Array x = Array::of(dtype, {1, 3}, std::vector{far, far, far - 8});
      std::vector<Array> expected{
          Array::of(dtype, {1, 3}, std::vector{-log_sum, -log_sum, -8 - log_sum}),
          Array::of(dtype, {1, 3}, std::vector{p[0], p[1], p[2]})};
      const double smooth = 0.7 * (log_sum + 8) + 0.3 * (log_sum + 8.0 / 3);
      for (const double loss : {log_sum + 8, log_sum + 8, smooth})
        expected.push_back(Array::of(dtype, {}, std::vector{loss}));
      expected.push_back(Array::of(dtype, {1, 3}, std::vector{p[0], p[1], p[2] - 1}));
      EXPECT_TRUE(
          same(program.run({x, integers({1}, {2})}), expected, dtype == DType::F32 ? 1e-6 : 1e-14))
          << far;
    }
  }
}

TEST(Losses, RowWithAnInfinity_IsNotANumberAsAWhole) {
  TracedRun program({random_f64(1, {2, 3})}, [](Trace&, In x) {
    return std::vector{softmax(x[0], 1), log_softmax(x[0], 1), logsumexp(x[0], 1)};
  });
  for (const double infinite : {kInf, -kInf}) {
    Array x =
        Array::of(DType::F64, {2, 3}, std::vector{infinite, infinite, infinite, 1.0, 2.0, 3.0});
    if (infinite > 0) x.set(1, 0.0), x.set(2, -kInf);
    const std::vector<Array> out = program.run({x});
    for (I i = 0; i < 3; ++i) {
      EXPECT_TRUE(std::isnan(out[0].at(i)) && std::isnan(out[1].at(i))) << infinite << " " << i;
      EXPECT_TRUE(std::isfinite(out[0].at(3 + i)) && std::isfinite(out[1].at(3 + i)));
    }
    EXPECT_EQ(out[2].at(0), infinite);
  }
}

TEST(Losses, OfProbabilities_AsByLoops) {
  TracedRun program(
      {random_f64(1, {3, 4}), random_f64(2, {3, 4}), random_f64(3, {4})}, [](Trace&, In x) {
        return std::vector{
            cross_entropy(x[0], x[1]),
            cross_entropy(x[0], x[1],
                          {.weight = x[2], .reduction = Reduction::Sum, .label_smoothing = 0.2}),
            cross_entropy(x[0], x[1], {.reduction = Reduction::None})};
      });
  for (const I n : {0, 1, 2, 5}) {
    const Array x = random_f64(4, {n, 3}), p = random_f64(5, {n, 3}), w = random_f64(6, {3});
    Array each = Array::zeros(DType::F64, {n});
    double smooth = 0;
    for (I i = 0; i < n; ++i) {
      double sum = 0;
      for (I c = 0; c < 3; ++c) sum += std::exp(x.at(i * 3 + c));
      for (I c = 0; c < 3; ++c) {
        const double loss = std::log(sum) - x.at(i * 3 + c), share = p.at(i * 3 + c);
        each.set(i, each.at(i) + share * loss);
        smooth += w.at(c) * (0.8 * share + 0.2 / 3) * loss;
      }
    }
    EXPECT_TRUE(same(program.run({x, p, w}),
                     {one(sum_of(each) / static_cast<double>(n)), one(smooth), each}, 1e-12));
  }
}

TEST(Losses, IgnoredElements_HaveNoSayWhateverTheyHold) {
  TracedRun program({random_f64(1, {3, 3}), Array::zeros(DType::I64, {3})}, [](Trace&, In x) {
    const Tensor loss = cross_entropy(x[0], x[1]);
    return std::vector{loss, cross_entropy(x[0], x[1], {.reduction = Reduction::Sum}),
                       grad(loss, {x[0]})[0]};
  });
  Array x = Array::zeros(DType::F64, {2, 2});
  x.set(2, -kInf), x.set(3, 1);
  const double loss = std::log(2.0);
  EXPECT_TRUE(
      same(program.run({x, integers({2}, {0, -100})}),
           {one(loss), one(loss), Array::of(DType::F64, {2, 2}, std::vector{-0.5, 0.5, 0.0, 0.0})},
           1e-12));
  const std::vector<Array> none = program.run({x, integers({2}, {-100, -100})});
  EXPECT_TRUE(std::isnan(none[0].at(0)));
  EXPECT_EQ(none[1].at(0), 0);
}

TEST(Losses, ALabelThatIsNoClass_FailsOnAllRanks) {
  const Array x = random_f64(1, {2, 3});
  TracedRun program({x, Array::zeros(DType::I64, {2})},
                    [](Trace&, In t) { return std::vector{cross_entropy(t[0], t[1])}; });
  OnRanks ranks(program.graph(), 2);
  for (const I bad : {I{3}, I{-1}}) {
    const Array labels = integers({2}, {1, bad});
    EXPECT_NE(program.failure({x, labels}).find("was given index"), std::string::npos);
    const OnRanks::Run run = ranks.everywhere(
        {{{"in100", x}, {"in101", integers({2}, {1, 2})}}, {{"in100", x}, {"in101", labels}}});
    for (const auto& rank : run.ranks) EXPECT_FALSE(rank->has_value());
  }
}

TEST(Losses, BetweenNumbers_AsByLoops) {
  const std::vector<std::function<Tensor(In, Reduction)>> traced{
      [](In x, Reduction r) { return mse_loss(x[0], x[1], r); },
      [](In x, Reduction r) { return smooth_l1_loss(x[0], x[1], r, 0.5); },
      [](In x, Reduction r) { return smooth_l1_loss(x[0], x[1], r, 0); },
      [](In x, Reduction r) { return huber_loss(x[0], x[1], r, 0.5); },
      [](In x, Reduction r) {
        return binary_cross_entropy_with_logits(x[0], x[1], {.reduction = r});
      },
      [](In x, Reduction r) {
        return binary_cross_entropy_with_logits(
            x[0], x[1], {.weight = x[2], .pos_weight = x[3], .reduction = r});
      }};
  const auto softplus_of = [](double x) {
    return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
  };
  const auto expected_of = [&](std::size_t f, double x, double y, double w, double p) {
    const double d = std::fabs(x - y);
    switch (f) {
      case 0:
        return d * d;
      case 1:
        return d < 0.5 ? d * d : d - 0.25;
      case 2:
        return d;
      case 3:
        return 0.5 * (d < 0.5 ? d * d : d - 0.25);
      case 4:
        return y * softplus_of(-x) + (1 - y) * softplus_of(x);
      default:
        return w * (p * y * softplus_of(-x) + (1 - y) * softplus_of(x));
    }
  };
  TracedRun program(
      {random_f64(1, {4, 5}), random_f64(1, {4, 5}), random_f64(1, {5}), random_f64(1, {5})},
      [&](Trace&, In x) {
        std::vector<Tensor> out;
        for (const auto& f : traced)
          for (const Reduction r : {Reduction::None, Reduction::Sum, Reduction::Mean})
            out.push_back(f(x, r));
        return out;
      });
  for (const I n : {0, 1, 2, 5})
    for (const I m : {0, 1, 2, 5}) {
      Array x = random_f64(2, {n, m}), y = random_f64(3, {n, m});
      if (n > 0 && m > 0) x.set(0, 800), y.set(0, 0);
      if (n > 1 && m > 0) x.set(m, -800), y.set(m, 1);
      const Array w = random_f64(4, {m}), p = random_f64(5, {m});
      std::vector<Array> expected;
      for (std::size_t f = 0; f < traced.size(); ++f) {
        Array each = Array::zeros(DType::F64, {n, m});
        for (I i = 0; i < n * m; ++i)
          each.set(i, expected_of(f, x.at(i), y.at(i), w.at(i % m), p.at(i % m)));
        expected.push_back(each);
        expected.push_back(one(sum_of(each)));
        expected.push_back(one(sum_of(each) / static_cast<double>(n * m)));
      }
      EXPECT_TRUE(same(program.run({x, y, w, p}), expected, 1e-12)) << n << " " << m;
    }
}

TEST(Losses, WhatDoesNotFit_IsRefused) {
  const std::vector<Array> x{random_f64(1, {2, 3}), integers({3}, {0, 1, 2}), random_f64(1, {3}),
                             Array::zeros(DType::I16, {2}), random_f64(1, {})};
  EXPECT_EQ(refused(x, [](In t) { return cross_entropy(t[0], t[1]); }),
            "cross_entropy: the tensor of labels is i64[3], and needs the sizes i64[2]");
  EXPECT_EQ(refused(x, [](In t) { return cross_entropy(t[0], t[2]); }),
            "cross_entropy: the tensor of probabilities is f64[3], and needs the sizes f64[2, 3]");
  EXPECT_EQ(refused(x, [](In t) { return nll_loss(t[0], t[3]); }),
            "nll_loss: the tensor of labels is i16[2], and has to be i64 or i32; cast first");
  EXPECT_EQ(refused(x, [](In t) { return cross_entropy(t[0], t[0], {.label_smoothing = 1.5}); }),
            "cross_entropy: label_smoothing is a part from 0 to 1, not 1.5");
  EXPECT_EQ(refused(x, [](In t) { return nll_loss(t[4], t[1]); }),
            "nll_loss: takes a tensor with a dim of classes, not one number");
  EXPECT_EQ(refused(x, [](In t) { return mse_loss(t[1], t[1]); }),
            "mse_loss: takes floating-point numbers, not i64[3]; cast first");
  EXPECT_EQ(refused(x, [](In t) { return huber_loss(t[0], t[0], Reduction::Mean, 0); }),
            "huber_loss: delta is positive");
}

}  // namespace
}  // namespace lockstep::worker::norm_loss_test
