// Whether random numbers are distributed as their functions say: moments, the distance of
// Kolmogorov and Smirnov, chi-square, and that draws by different keys know nothing of each other.
// Seeds are fixed, so a bound is met always or never.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "compiled_graph.h"
#include "tracing.h"
#include <gtest/gtest.h>

#include <lockstep/worker/tensor/language/random_ops.h>

namespace lockstep::worker::random_distribution_test {
namespace {

using test::DecisionBuilder;
constexpr std::int64_t kCount = 1 << 16;

/// What `body` draws by the key `seed`.
std::vector<double> drawn(std::int64_t seed,
                          const std::function<Tensor(Trace&, const RankKey&)>& body) {
  const Decision decision = DecisionBuilder().tensor("key", DType::I64, {}).get();
  const Result<Graph> graph = trace(
      test::setup(decision), [&](Trace& t) { t.output("y", body(t, RankKey(t.tensor_input(0)))); });
  EXPECT_TRUE(graph.has_value()) << graph.error().text();
  const auto outputs = run_interpreted(*graph, {{"key", integers({}, {seed})}});
  EXPECT_TRUE(outputs.has_value());
  std::vector<double> out;
  for (std::int64_t i = 0; i < outputs->front().elements(); ++i)
    out.push_back(outputs->front().at(i));
  return out;
}

/// The mean of the k-th power.
double moment(const std::vector<double>& x, int k) {
  double sum = 0;
  for (const double v : x) sum += std::pow(v, k);
  return sum / static_cast<double>(x.size());
}

/// The greatest distance from a distribution, in units in which 1.95 is passed once in a thousand.
double distance(std::vector<double> x, const std::function<double(double)>& below) {
  std::sort(x.begin(), x.end());
  const auto n = static_cast<double>(x.size());
  double most = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double expected = below(x[i]), at = static_cast<double>(i);
    most = std::max({most, (at + 1) / n - expected, expected - at / n});
  }
  return most * std::sqrt(n);
}

/// How far counts are from `expected` parts of all, in deviations of what chance does.
double chi_square(const std::vector<double>& x, const std::vector<double>& expected) {
  std::vector<double> counts(expected.size(), 0);
  for (const double v : x) counts.at(static_cast<std::size_t>(v)) += 1;
  double sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double want = expected[i] * static_cast<double>(x.size());
    sum += (counts[i] - want) * (counts[i] - want) / want;
  }
  const auto freedom = static_cast<double>(expected.size() - 1);
  return (sum - freedom) / std::sqrt(2 * freedom);
}

double correlation(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum / static_cast<double>(a.size());
}

TEST(Distributions, Uniform) {
  for (const DType dtype : {DType::F32, DType::F64})
    for (const std::int64_t seed : {0, 1, -7}) {
      const auto x = drawn(seed, [&](Trace&, const RankKey& key) {
        return uniform(key, {kCount}, {.dtype = dtype});
      });
      EXPECT_LT(distance(x, [](double v) { return v; }), 1.95) << seed;
      EXPECT_NEAR(moment(x, 1), 0.5, 4 * std::sqrt(1.0 / 12 / kCount));
      EXPECT_NEAR(moment(x, 2), 1.0 / 3, 0.005);
      const auto wide = drawn(seed, [&](Trace&, const RankKey& key) {
        return uniform(key, {kCount}, -3, 5, {.dtype = dtype});
      });
      EXPECT_LT(distance(wide, [](double v) { return (v + 3) / 8; }), 1.95) << seed;
    }
}

TEST(Distributions, Normal) {
  for (const DType dtype : {DType::F32, DType::F64})
    for (const std::int64_t seed : {0, 1, -7}) {
      const auto x = drawn(seed, [&](Trace&, const RankKey& key) {
        return normal(key, {kCount}, {.dtype = dtype});
      });
      EXPECT_LT(distance(x, [](double v) { return std::erfc(-v / std::sqrt(2.0)) / 2; }), 1.95);
      EXPECT_NEAR(moment(x, 1), 0, 4 / std::sqrt(kCount));
      EXPECT_NEAR(moment(x, 2), 1, 0.025);
      EXPECT_NEAR(moment(x, 3), 0, 0.08);
      EXPECT_NEAR(moment(x, 4), 3, 0.2);
      EXPECT_GT(*std::max_element(x.begin(), x.end()), 3.8);
    }
}

TEST(Distributions, Bernoulli) {
  for (const double p : {0.01, 0.3, 0.75}) {
    const auto x =
        drawn(5, [&](Trace&, const RankKey& key) { return bernoulli(key, {kCount}, p); });
    EXPECT_NEAR(moment(x, 1), p, 4 * std::sqrt(p * (1 - p) / kCount));
  }
  const auto each = drawn(5, [&](Trace& t, const RankKey& key) {
    return bernoulli(key, cast(arange(t, kCount), DType::F64) / static_cast<double>(kCount));
  });
  EXPECT_NEAR(moment(each, 1), 0.5, 0.01);
  double early = 0;
  for (std::size_t i = 0; i < kCount / 4; ++i) early += each[i];
  EXPECT_NEAR(early / (kCount / 4), 0.125, 0.015);
}

TEST(Distributions, Randint) {
  for (const int count : {2, 3, 7, 100}) {
    const auto x = drawn(
        9, [&](Trace&, const RankKey& key) { return randint(key, {kCount}, -4, count - 4) + 4; });
    EXPECT_LT(
        std::fabs(chi_square(x, std::vector<double>(static_cast<std::size_t>(count), 1.0 / count))),
        4)
        << count;
  }
}

TEST(Distributions, Categorical) {
  const std::vector<double> parts{0.5, 0.25, 0.15, 0.09, 0.01};
  for (const DType dtype : {DType::F32, DType::F64}) {
    const auto x = drawn(13, [&](Trace& t, const RankKey& key) {
      std::vector<Tensor> logits;
      for (const double part : parts)
        logits.push_back(full(t, {kCount / 4, 1}, std::log(part) + 3, dtype));
      return categorical(key, cat(logits, 1), 1);
    });
    EXPECT_LT(std::fabs(chi_square(x, parts)), 4);
  }
}

TEST(Distributions, Permutation_IsAnyOrderOfThreeAlike) {
  std::vector<double> orders;
  const auto x = drawn(21, [&](Trace&, const RankKey& key) {
    std::vector<Tensor> all;
    for (const RankKey& one : key.split(600)) all.push_back(permutation(one, 3));
    return cat(all, 0);
  });
  std::map<std::vector<double>, double> numbers;
  for (std::size_t i = 0; i < x.size(); i += 3)
    orders.push_back(numbers.emplace(std::vector<double>{x[i], x[i + 1], x[i + 2]}, numbers.size())
                         .first->second);
  ASSERT_EQ(numbers.size(), 6U);
  EXPECT_LT(std::fabs(chi_square(orders, std::vector<double>(6, 1.0 / 6))), 4);
}

TEST(Distributions, DrawsByDifferentKeys_KnowNothingOfEachOther) {
  const auto numbers = [](std::int64_t seed, const std::function<RankKey(const RankKey&)>& made) {
    return drawn(seed, [&](Trace&, const RankKey& key) { return normal(made(key), {kCount}); });
  };
  const std::vector<std::vector<double>> all{
      numbers(1, [](const RankKey& key) { return key; }),
      numbers(2, [](const RankKey& key) { return key; }),
      numbers(1, [](const RankKey& key) { return key.split(2)[0]; }),
      numbers(1, [](const RankKey& key) { return key.split(2)[1]; }),
      numbers(1, [](const RankKey& key) { return key.fold_in(0); }),
      numbers(1, [](const RankKey& key) { return key.fold_in(1); })};
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j)
      EXPECT_LT(std::fabs(correlation(all[i], all[j])) * std::sqrt(kCount), 4) << i << " " << j;
    // Nor do neighbours of one draw.
    const std::vector<double> next(all[i].begin() + 1, all[i].end());
    EXPECT_LT(std::fabs(correlation(next, all[i])) * std::sqrt(kCount), 4) << i;
  }
}

}  // namespace
}  // namespace lockstep::worker::random_distribution_test
