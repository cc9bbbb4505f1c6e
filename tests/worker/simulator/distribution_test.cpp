// What distributions draw: against the exact probabilities (chi-square at fixed seeds, with the
// functions of the C library), and against values written down, which hold on every machine.
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include <lockstep/worker/simulator/draw/distribution.h>
#include <lockstep/worker/simulator/draw/draw.h>
#include <lockstep/worker/simulator/draw/lengths_file.h>
#include <lockstep/worker/simulator/draw/portable_math.h>

namespace lockstep::worker::simulator::distribution_test {
namespace {

constexpr std::uint64_t kDraws = 400'000;

double below(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }

/// The share of a value under a distribution with this share up to and including each value.
struct Exact {
  std::int64_t low, high;
  std::function<double(std::int64_t)> up_to;  // of low - 1 is 0, of high is 1
};

/// The value that chi-square with this many degrees of freedom exceeds once in 10,000 (Wilson and
/// Hilferty).
double chi_square_limit(double degrees) {
  const double part = 2 / (9 * degrees);
  return degrees * std::pow(1 - part + 3.719 * std::sqrt(part), 3);
}

/// Cells of neighbouring values of which 20 at least are expected.
void expect_drawn_as(const Exact& exact, const std::function<std::int64_t(std::uint64_t)>& draw) {
  std::map<std::int64_t, std::uint64_t> seen;
  for (std::uint64_t i = 0; i < kDraws; ++i) ++seen[draw(i)];
  ASSERT_GE(seen.begin()->first, exact.low);
  ASSERT_LE(seen.rbegin()->first, exact.high);
  double chi_square = 0, cells = 0, expected = 0, found = 0, share = 0;
  for (std::int64_t v = exact.low; v <= exact.high; ++v) {
    const double up_to = v == exact.high ? 1 : exact.up_to(v);
    expected += (up_to - share) * static_cast<double>(kDraws);
    share = up_to;
    if (const auto it = seen.find(v); it != seen.end()) found += static_cast<double>(it->second);
    if ((expected < 20 || (1 - share) * static_cast<double>(kDraws) < 20) && v != exact.high)
      continue;
    chi_square += (found - expected) * (found - expected) / expected;
    cells += 1;
    expected = found = 0;
  }
  ASSERT_GE(cells, 3);
  EXPECT_LT(chi_square, chi_square_limit(cells - 1)) << cells << " cells";
}

void expect_drawn_as(const Distribution& distribution, const Exact& exact, std::uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  expect_drawn_as(exact, [&](std::uint64_t i) { return distribution.at(mixed(seed, i)); });
}

TEST(Elementary, Functions_AreThoseOfTheCLibrary) {
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    const double unit = static_cast<double>(mixed(11, i) >> 11) * 0x1p-53;
    const double x = (unit - 0.5) * 1400;
    EXPECT_NEAR(exponential(x) / std::exp(x), 1, 1e-13) << x;
    const double positive = std::exp((unit - 0.5) * 80);
    EXPECT_NEAR(logarithm(positive), std::log(positive),
                1e-14 * (1 + std::abs(std::log(positive))));
    const double z = (unit - 0.5) * 17;
    EXPECT_NEAR(normal_below(z), below(z), 1e-14) << z;
  }
  EXPECT_EQ(normal_below(-9), 0);
  EXPECT_EQ(normal_below(9), 1);
  EXPECT_EQ(normal_below(0), 0.5);
  EXPECT_EQ(exponential(0), 1);
  EXPECT_EQ(logarithm(1), 0);
}

TEST(Distribution, Uniform_EachValueIsAsLikely) {
  expect_drawn_as(Distribution::uniform(-7, 92), {-7, 92, [](auto v) { return (v + 8) / 100.0; }},
                  1);
}

TEST(Distribution, Normal_IsRoundedAndClamped) {
  for (const auto& [mean, deviation] : {std::pair{512.0, 30.0}, {-3.25, 2.5}, {0.4, 0.6}}) {
    const auto normal = Distribution::normal(mean, deviation, {});
    ASSERT_TRUE(normal);
    const auto reach = static_cast<std::int64_t>(9 * deviation + std::abs(mean));
    const double m = mean, d = deviation;
    expect_drawn_as(
        *normal,
        {-reach, reach, [=](auto v) { return below((static_cast<double>(v) + 0.5 - m) / d); }}, 2);
  }
  const auto clamped = Distribution::normal(10, 20, {0, 40});  // the bounds take what is beyond
  ASSERT_TRUE(clamped);
  expect_drawn_as(
      *clamped, {0, 40, [](auto v) { return below((static_cast<double>(v) + 0.5 - 10) / 20); }}, 3);
}

TEST(Distribution, Lognormal_HasItsMedianAndSigma) {
  const auto drawn = Distribution::lognormal(300, 0.7, {1, 4096});
  ASSERT_TRUE(drawn);
  expect_drawn_as(
      *drawn,
      {1, 4096, [](auto v) { return below(std::log((static_cast<double>(v) + 0.5) / 300) / 0.7); }},
      4);
}

TEST(Distribution, Zipf_FallsWithThePowerOfTheRank) {
  for (const double exponent : {0.0, 1.0, 1.3}) {
    double sum = 0;
    std::vector<double> up_to{0};
    for (int k = 1; k <= 1000; ++k) up_to.push_back(sum += std::pow(k, -exponent));
    expect_drawn_as(Distribution::zipf(exponent, 1000),
                    {1, 1000, [&](auto v) { return up_to[static_cast<std::size_t>(v)] / sum; }}, 5);
  }
}

TEST(Distribution, ZipfFrequency_IsTheLoadOfOneKind) {
  const double sum = 1 + 1 / 2.0 + 1 / 3.0 + 1 / 4.0;
  const Distribution load = Distribution::zipf_frequency(1, 4, 1000);
  std::map<std::int64_t, int> seen;
  for (std::uint64_t i = 0; i < 40'000; ++i) ++seen[load.at(mixed(6, i))];
  ASSERT_EQ(seen.size(), 4U);
  int k = 4;
  for (const auto& [value, count] : seen) {
    EXPECT_EQ(value, static_cast<std::int64_t>(1000 / sum / k--));
    EXPECT_NEAR(count, 10'000, 400);
  }
}

TEST(Distribution, Histogram_GoesByWeights) {
  const Distribution drawn = Distribution::histogram({{5, 1}, {100, 0}, {-2, 6}, {7, 3}});
  std::map<std::int64_t, int> seen;
  for (std::uint64_t i = 0; i < 100'000; ++i) ++seen[drawn.at(mixed(7, i))];
  EXPECT_EQ(seen.size(), 3U);
  EXPECT_NEAR(seen[5], 10'000, 400);
  EXPECT_NEAR(seen[-2], 60'000, 700);
  EXPECT_NEAR(seen[7], 30'000, 700);
}

TEST(Distribution, EndsOfTheBits_AreTheEndsOfTheTable) {
  const Distribution halves = Distribution::histogram({{1, 1}, {2, 1}});
  EXPECT_EQ(halves.at(0), 1);
  EXPECT_EQ(halves.at((std::uint64_t{1} << 63) - 1), 1);
  EXPECT_EQ(halves.at(std::uint64_t{1} << 63), 2);
  EXPECT_EQ(halves.at(UINT64_MAX), 2);
  EXPECT_EQ(Distribution::histogram({{9, INT64_MAX}}).at(UINT64_MAX), 9);
  const auto narrow = Distribution::normal(5, 3, {5, 5});
  ASSERT_TRUE(narrow);
  EXPECT_EQ(narrow->at(0), 5);
  EXPECT_EQ(narrow->at(UINT64_MAX), 5);
  EXPECT_EQ(Distribution::uniform(0, 9).clamped({3, 4}).at(9), 4);
}

TEST(Distribution, TooWideForATable_IsRefused) {
  EXPECT_FALSE(Distribution::normal(0, 1e6, {}));
  EXPECT_TRUE(Distribution::normal(0, 1e6, {0, kMaxTable - 1}));
  EXPECT_FALSE(Distribution::normal(0, 1e6, {0, kMaxTable}));
  EXPECT_FALSE(Distribution::lognormal(kMaxMoment, 16, {}));
  EXPECT_TRUE(Distribution::lognormal(kMaxMoment, 16, {-5, 100}));
  EXPECT_TRUE(Distribution::normal(-kMaxMoment, 1, {INT64_MAX, INT64_MAX}));
}

/// Ranks, calls, places and seeds that follow each other draw as if by chance, pairs of them too.
TEST(Draw, NeighboursOfEveryKind_AreIndependent) {
  Draw draw;
  draw.source = "x";
  draw.from = Distribution::uniform(0, 9);
  draw.per.axes = {{.stride = 1, .size = 1 << 24}};
  const auto rank = [&](std::uint64_t i) {
    return draw.at(draw.place(1, 2, 3), static_cast<std::int32_t>(i));
  };
  const auto call = [&](std::uint64_t i) { return draw.at(draw.place(1, i, 3), 4); };
  const auto place = [&](std::uint64_t i) { return draw.at(draw.place(1, 2, i), 4); };
  const auto seed = [&](std::uint64_t i) { return draw.at(draw.place(i, 2, 3), 4); };
  const Exact pairs{0, 99, [](auto v) { return static_cast<double>(v + 1) / 100; }};
  for (const auto& one :
       std::initializer_list<std::function<std::int64_t(std::uint64_t)>>{rank, call, place, seed})
    for (const std::uint64_t apart : {1, 2, 8, 64, 4096})
      expect_drawn_as(pairs, [&](std::uint64_t i) { return 10 * one(i) + one(i + apart); });
}

/// A digest of many draws: any other bit of a table shows.
std::uint64_t digest_of(const Distribution& distribution) {
  std::uint64_t out = 0;
  for (std::uint64_t i = 0; i < kDraws; ++i)
    out = mixed(out, static_cast<std::uint64_t>(distribution.at(mixed(42, i))));
  return out;
}

std::vector<std::int64_t> first_of(const Distribution& distribution) {
  std::vector<std::int64_t> out;
  for (std::uint64_t i = 0; i < 6; ++i) out.push_back(distribution.at(mixed(42, i)));
  return out;
}

TEST(Distribution, Draws_AreTheValuesWrittenDown) {
  using Values = std::vector<std::int64_t>;
  const Distribution uniform = Distribution::uniform(1, 64);
  const Distribution normal = *Distribution::normal(512, 100, {0, INT64_MAX});
  const Distribution lognormal = *Distribution::lognormal(300, 0.7, {1, 4096});
  const Distribution zipf = Distribution::zipf(1.1, 5000);
  const Distribution histogram = Distribution::histogram({{3, 10}, {80, 30}, {1, 7}});
  EXPECT_EQ(first_of(uniform), (Values{22, 9, 20, 23, 8, 6}));
  EXPECT_EQ(first_of(normal), (Values{577, 573, 721, 698, 573, 508}));
  EXPECT_EQ(first_of(lognormal), (Values{472, 459, 1292, 1101, 461, 291}));
  EXPECT_EQ(first_of(zipf), (Values{196, 170, 3818, 3166, 174, 17}));
  EXPECT_EQ(first_of(histogram), (Values{80, 80, 1, 1, 80, 80}));
  EXPECT_EQ(digest_of(normal), 18134747327762380514U);
  EXPECT_EQ(digest_of(lognormal), 7100058489543995380U);
  EXPECT_EQ(digest_of(zipf), 10037786473150639467U);
  EXPECT_EQ(digest_of(Distribution::zipf_frequency(0.9, 4096, 1'000'000)), 15611379688589679387U);
}

TEST(LengthsFile, LinesAndCounts_MakeOneHistogram) {
  const auto bins = parse_lengths("# seen on Monday\nlength,count\r\n 12 , 3 \n\n4\n12\n", "f.csv");
  ASSERT_TRUE(bins.has_value()) << bins.error().message;
  ASSERT_EQ(bins->size(), 2U);
  EXPECT_EQ((*bins)[0].value, 4);
  EXPECT_EQ((*bins)[0].weight, 1);
  EXPECT_EQ((*bins)[1].value, 12);
  EXPECT_EQ((*bins)[1].weight, 4);
}

TEST(LengthsFile, Mistakes_AreNamedWithLine) {
  for (const auto& [text, start] :
       {std::pair<std::string, std::string>{"", "f.csv:1: the file holds no length"},
        {"# no\n", "f.csv:2: the file holds no length"},
        {"3,0\n", "f.csv:2: the file holds no length"},
        {"length\nwidth\n", "f.csv:2: \"width\" is no length"},
        {"3\n\n-4\n", "f.csv:3: \"-4\" is no length"},
        {"3\n4,5,6\n", "f.csv:2: \"4,5,6\" is no length"},
        {"3\n4,\n", "f.csv:2: \"4,\" is no length"},
        {"3.5\n", "f.csv:1: \"3.5\" is no length"},
        {"9223372036854775808\n", "f.csv:1: \"9223372036854775808\" is no length"},
        {"1,9223372036854775807\n2\n", "f.csv:2: the counts do not fit"}}) {
    const auto bins = parse_lengths(text, "f.csv");
    ASSERT_FALSE(bins.has_value()) << text;
    EXPECT_TRUE(bins.error().message.starts_with(start)) << bins.error().message;
    EXPECT_TRUE(bins.error().message.ends_with(".")) << bins.error().message;
  }
}

}  // namespace
}  // namespace lockstep::worker::simulator::distribution_test
