// Fewer guards, and coverage, against every point of small domains.
#include <algorithm>
#include <cstdio>

#include "random_expr.h"
#include <gtest/gtest.h>

#include <lockstep/shapes/guard_set.h>

namespace lockstep::shapes::guard_set_test {
namespace {

using testing::random_predicate;
using testing::random_written;
using testing::valuation;
using testing::Values;

const Expr s0 = Expr::symbol({false, 0}), s1 = Expr::symbol({false, 1});

Guard guard(const Predicate& p) { return {p, {"a.cpp", 1}, {}}; }

std::vector<std::string> texts(const std::vector<Guard>& guards) {
  std::vector<std::string> out;
  for (const auto& g : guards) out.push_back(g.predicate.text());
  return out;
}

using Texts = std::vector<std::string>;
const std::map<Symbol, Range> kSizes = {{{false, 0}, {2, Range::kMax}},
                                        {{false, 1}, {2, Range::kMax}}};

TEST(GuardSet, LooserBounds_AreDropped) {
  const GuardSet set{
      kSizes,
      {guard(greater(s0, 4)), guard(less(s0, 100)), guard(greater(s0, 9)), guard(less(s0, 200)),
       guard(greater(s0 + s1, 5)), guard(greater(s0 + s1, 3))}};
  EXPECT_EQ(texts(minimal_guards(set)), (Texts{"s0 <= 99", "s0 >= 10"}));
}

TEST(GuardSet, WhatOthersImply_IsDropped) {
  const GuardSet set{kSizes,
                     {guard(equal(s0, 2 * s1)), guard(not_equal(s0, s1)), guard(greater(s0, s1)),
                      guard(equal(mod(s0, 2), 0)), guard(not_equal(s0, 6))}};
  EXPECT_EQ(texts(minimal_guards(set)), (Texts{"s0 == 2*s1", "s0 != 6"}));
}

TEST(GuardSet, DivisionByAPossibleZero_Stays) {
  const std::map<Symbol, Range> counts = {{{false, 0}, {0, 9}}, {{false, 1}, {0, 9}}};
  const Guard divides = guard(greater_equal(floor_div(s0, s1), 0));
  EXPECT_EQ(minimal_guards({counts, {divides}}).size(), 1u);
  EXPECT_EQ(minimal_guards({kSizes, {divides}}).size(), 0u);
}

// Equal sizes share no symbol, so the entry of (5, 4) serves (4, 4), and that of (4, 4) serves
// (5, 4): neither has a guard that ties its sizes.
TEST(GuardSet, Vector_04_SizesThatHappenToBeEqual_AreNotTied) {
  const GuardSet of_two{kSizes, {}}, tied{kSizes, {guard(equal(s0, s1))}};
  EXPECT_TRUE(covers(of_two, tied));
  EXPECT_FALSE(covers(tied, of_two));
}

TEST(GuardSet, WiderEntry_CoversANarrowerOne) {
  const GuardSet five{kSizes, {guard(equal(s0, 5))}};
  const GuardSet many{kSizes, {guard(greater(s0, 3))}};
  const GuardSet even{kSizes, {guard(equal(mod(s0, 2), 0))}};
  EXPECT_TRUE(covers(many, five));
  EXPECT_FALSE(covers(five, many));
  EXPECT_FALSE(covers(even, five));
  EXPECT_TRUE(covers({kSizes, {}}, even));
  EXPECT_FALSE(covers({kSizes, {}}, {{{{false, 0}, {0, 9}}, {{false, 1}, {2, 9}}}, {}}));
}

// The minimal set admits the same points; coverage is never claimed where a point refutes it.
TEST(GuardSet, RandomSets_AgreeWithEveryPoint) {
  const std::uint64_t seed = 4711;
  std::mt19937_64 random(seed);
  const auto set = [&] {
    GuardSet out;
    for (std::uint32_t s = 0; s < testing::kSymbols; ++s) {
      const auto low = static_cast<std::int64_t>(random() % 4) - 1;
      out.ranges[{s >= 2, s >= 2 ? s - 2 : s}] = {low, low + 3};
    }
    for (int g = 0; g < 4; ++g) {
      try {
        int kind = 0;
        const Expr a = random_written(random, 1).expr(), b = random_written(random, 1).expr();
        const Predicate p = random_predicate(random, a, b, kind);
        if (!p.constant()) out.guards.push_back(guard(p));
      } catch (const OverflowError&) {
      }
    }
    return out;
  };
  const auto admits = [](const GuardSet& some, const Values& v) {
    std::size_t i = 0;
    for (const auto& [symbol, range] : some.ranges)
      if (!range.contains(v[i++])) return false;
    return std::all_of(some.guards.begin(), some.guards.end(),
                       [&](const Guard& g) { return g.predicate.evaluate(valuation(v)) == true; });
  };
  std::size_t dropped = 0, covered = 0;
  for (int round = 0; round < 1500; ++round) {
    const GuardSet a = set();
    GuardSet b = set();
    if (round % 2 == 0) {  // often related
      b = a;
      b.guards.resize(b.guards.size() / 2);
    }
    const GuardSet fewer{a.ranges, minimal_guards(a)};
    dropped += a.guards.size() - fewer.guards.size();
    const bool covering = covers(b, a);
    covered += covering ? 1 : 0;
    for (std::int64_t p = 0; p < 7 * 7 * 7 * 7; ++p) {
      const Values v = {p % 7 - 1, p / 7 % 7 - 1, p / 49 % 7 - 1, p / 343 - 1};
      const bool in_a = admits(a, v);
      ASSERT_EQ(admits(fewer, v), in_a) << "seed " << seed << ", round " << round;
      ASSERT_TRUE(!covering || !in_a || admits(b, v)) << "seed " << seed << ", round " << round;
    }
  }
  std::printf("seed %llu: %zu guards dropped, %zu of 1500 covered\n",
              static_cast<unsigned long long>(seed), dropped, covered);
  EXPECT_GT(dropped, 500u);
  EXPECT_GT(covered, 300u);
}

}  // namespace
}  // namespace lockstep::shapes::guard_set_test
