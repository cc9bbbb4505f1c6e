#include <thread>

#include "random_expr.h"
#include <gtest/gtest.h>

#include <lockstep/shapes/expr/expr.h>
#include <lockstep/shapes/expr/range.h>

namespace lockstep::shapes::expr_test {
namespace {

using testing::random_written;
using testing::valuation;
using testing::Values;
using testing::Written;

const Expr s0 = Expr::symbol({false, 0}), s1 = Expr::symbol({false, 1});
const Expr u0 = Expr::symbol({true, 0}), u1 = Expr::symbol({true, 1});

// Builds the expression again from its own normal form.
Expr rebuilt(const Expr& e) {
  std::vector<Expr> summands;
  for (const auto& term : e.terms()) {
    Expr product = term.coefficient;
    for (const auto& factor : term.factors) {
      const auto& operands = factor.atom->operands;
      Expr atom = operands.empty() ? Expr::symbol(factor.atom->symbol) : rebuilt(operands[0]);
      for (std::size_t i = 1; i < operands.size(); ++i) {
        const Expr next = rebuilt(operands[i]);
        switch (factor.atom->op) {
          case Expr::Op::FloorDiv:
            atom = floor_div(atom, next);
            break;
          case Expr::Op::Mod:
            atom = mod(atom, next);
            break;
          case Expr::Op::Min:
            atom = min(atom, next);
            break;
          default:
            atom = max(atom, next);
            break;
        }
      }
      for (std::uint32_t i = 0; i < factor.power; ++i) product = product * atom;
    }
    summands.push_back(product);
  }
  return sum(summands);
}

TEST(Expr, RandomExpressions_KeepTheirValueAndSimplifyOnce) {
  const std::uint64_t seed = 20261120;
  std::mt19937_64 random(seed);
  constexpr std::array<std::int64_t, 9> kValues = {0, 1, -1, 2, 3, 5, -2, 7, 12};
  int checked = 0;
  for (int i = 0; i < 120000; ++i) {
    const Written written = random_written(random, i % 3 == 0 ? 4 : 3, 3);
    Expr e;
    try {
      e = written.expr();
    } catch (const OverflowError&) {
      continue;
    }
    for (int j = 0; j < 6; ++j) {
      const Values values{kValues[random() % 9], kValues[random() % 9], kValues[random() % 9], 0};
      const auto expected = written.value(values);
      if (!expected) continue;
      ++checked;
      ASSERT_EQ(e.evaluate(valuation(values)), expected)
          << "seed " << seed << ", expression " << i << ": " << e.text() << " at " << values[0]
          << ", " << values[1] << ", " << values[2];
      const Range range = range_of(e);
      ASSERT_TRUE(range.contains(*expected)) << "seed " << seed << ": " << e.text();
    }
    ASSERT_EQ(rebuilt(e), e) << "seed " << seed << ", expression " << i << ": " << e.text()
                             << " became " << rebuilt(e).text();
    ASSERT_EQ(e - e, Expr(0));
  }
  EXPECT_GT(checked, 300000);
  std::printf("seed %llu: %d values compared\n", static_cast<unsigned long long>(seed), checked);
}

TEST(Expr, RandomRanges_ContainEveryValue) {
  const std::uint64_t seed = 7;
  std::mt19937_64 random(seed);
  for (int i = 0; i < 40000; ++i) {
    const Written written = random_written(random, 3, 2);
    Expr e;
    try {
      e = written.expr();
    } catch (const OverflowError&) {
      continue;
    }
    std::array<Range, 2> ranges;
    for (auto& range : ranges) {
      range.lower = static_cast<std::int64_t>(random() % 9) - 4;
      range.upper = range.lower + static_cast<std::int64_t>(random() % 4);
    }
    auto open = ranges;
    for (auto& range : open) {
      if (random() % 3 == 0) range.lower = Range::kMin;
      if (random() % 3 == 0) range.upper = Range::kMax;
    }
    const Range bound = range_of(e, [&](Symbol s) { return open[s.serial]; });
    for (std::int64_t a = ranges[0].lower; a <= ranges[0].upper; ++a) {
      for (std::int64_t b = ranges[1].lower; b <= ranges[1].upper; ++b) {
        const Values values{a, b, 0, 0};
        const auto value = e.evaluate(valuation(values));
        ASSERT_TRUE(!value || bound.contains(*value))
            << "seed " << seed << ": " << e.text() << " at " << a << ", " << b << " is " << *value
            << ", bound " << bound.lower << " to " << bound.upper;
      }
    }
  }
}

TEST(Expr, Polynomials_HaveOneForm) {
  EXPECT_EQ((s0 + s1) * (s0 - s1), s0 * s0 - s1 * s1);
  EXPECT_EQ(s0 * 2 + s1 - s0 - s0, s1);
  EXPECT_EQ((s0 - s0).constant(), 0);
  EXPECT_EQ((u0 + s0).as_symbol(), std::nullopt);
  EXPECT_EQ((u0 + 0).as_symbol(), (Symbol{true, 0}));
  EXPECT_TRUE((u0 * s0).has_unbacked());
  EXPECT_EQ((u0 * s1 + floor_div(s0, 4)).symbols(),
            (std::vector<Symbol>{{false, 0}, {false, 1}, {true, 0}}));
}

TEST(Expr, FloorDiv_Simplifies) {
  EXPECT_EQ(floor_div(s0, 1), s0);
  EXPECT_EQ(floor_div(s0, -1), -s0);
  EXPECT_EQ(floor_div(4 * s0 + 6, 4), s0 + 1);
  EXPECT_EQ(floor_div(6 * s0 + 4, 4), floor_div(3 * s0, 2) + 1);
  EXPECT_EQ(floor_div(floor_div(s0, 2) - 1, 8), floor_div(s0 - 2, 16));
  EXPECT_EQ(floor_div(s0 * s1, s0), s1);
  EXPECT_EQ(floor_div(s0 * s1 + s0, 4 * s0), floor_div(s1 + 1, 4));
  EXPECT_EQ(floor_div(s0, s0), Expr(1));
  EXPECT_EQ(floor_div(mod(s0, 4), 4), Expr(0));
  EXPECT_EQ(floor_div(-7, 2), Expr(-4));
  EXPECT_EQ(floor_div(s0, 0).evaluate([](Symbol) { return 1; }), std::nullopt);
}

TEST(Expr, Mod_Simplifies) {
  EXPECT_EQ(mod(s0, 1), Expr(0));
  EXPECT_EQ(mod(6 * s0 + 7, 3), Expr(1));
  EXPECT_EQ(mod(2 * s0, 4), 2 * mod(s0, 2));
  EXPECT_EQ(mod(mod(s0, 8), 4), mod(s0, 4));
  EXPECT_EQ(mod(mod(s0, 4), 8), mod(s0, 4));
  EXPECT_EQ(mod(-s0, 4), mod(3 * s0, 4));
  EXPECT_EQ(mod(-7, 2), Expr(1));
  EXPECT_EQ(mod(s0 * s1, s0), Expr(0));
}

TEST(Expr, MinMax_FlattenSortAndDrop) {
  EXPECT_EQ(max(s0, s0), s0);
  EXPECT_EQ(max(s0, s0 + 1), s0 + 1);
  EXPECT_EQ(min(min(s1, u0), s0), min(s0, min(u0, s1)));
  EXPECT_EQ(max(2 * s0, 2 * s1), 2 * max(s0, s1));
  EXPECT_EQ(max(s0 + u0, s1 + u0), max(s0, s1) + u0);
  EXPECT_EQ(max(s0, min(s0, s1)), s0);
  EXPECT_EQ(max(s0 + u0, min(s0, s1) + u0), s0 + u0);
  EXPECT_EQ(max(mod(s0, 4), 7), Expr(7));
  EXPECT_EQ(max(max(s0 - max(s0, s1), u0), s1 - max(s0, s1)), max(u0, 0));
  EXPECT_EQ(max(s0, 4 * floor_div(s0, 4)), s0);
}

TEST(Expr, EqualExpressions_AreOneNode) {
  const Expr a = 3 * s0 * mod(s1, 8) + max(u0, s0), b = max(s0, u0) + mod(s1, 8) * s0 * 3;
  EXPECT_EQ(a.identity(), b.identity());
  EXPECT_NE(a.identity(), (a + 1).identity());
  EXPECT_EQ(Expr(0).identity(), (s0 - s0).identity());
}

// No text has a negative quotient that nobody wrote.
TEST(Expr, QuotientsRoundedUp_ReadAsThat) {
  const std::vector<std::pair<std::string, std::string>> all = {
      {ceil_div(s0, 2).text(), "CeilDiv(s0, 2)"},
      {(8 * ceil_div(s0, 8)).text(), "8*CeilDiv(s0, 8)"},
      {(s1 - ceil_div(s0, 8)).text(), "s1 - CeilDiv(s0, 8)"},
      {ceil_div(s0 - s1, 2).text(), "CeilDiv(s0 - s1, 2)"},
      {ceil_div(s1 - s0, 2).text(), "CeilDiv(-s0 + s1, 2)"},
      {ceil_div(s0, s1).text(), "CeilDiv(s0, s1)"},
      {(s1 * ceil_div(s0, 4)).text(), "s1*CeilDiv(s0, 4)"},
      {(ceil_div(s0, 4) * ceil_div(s0, 4)).text(), "CeilDiv(s0, 4)*CeilDiv(s0, 4)"},
      {floor_div(s1 - s0, 2).text(), "(-s0 + s1) // 2"},
      {floor_div(-s0, 2).text(), "-CeilDiv(s0, 2)"},
      {(s1 - floor_div(s0, 2)).text(), "s1 - s0 // 2"},
      {equal(ceil_div(s0, 2), 3).text(), "CeilDiv(s0, 2) == 3"},
      {greater(ceil_div(s0, s1), 3).text(), "CeilDiv(s0, s1) >= 4"},
      {less(ceil_div(s0, 2), 3).text(), "CeilDiv(s0, 2) <= 2"},
      {equal(ceil_div(s0 - s1, 2), 3).text(), "CeilDiv(s0 - s1, 2) == 3"},
      {equal(floor_div(s1 - s0, 2), 3).text(), "(-s0 + s1) // 2 == 3"},
      {less(ceil_div(s0 - s1, 2), 3).text(), "CeilDiv(s0 - s1, 2) <= 2"},
      {greater(ceil_div(s0 - s1, 2), 3).text(), "CeilDiv(s0 - s1, 2) >= 4"},
      {equal(s1, ceil_div(s0, 2)).text(), "s1 == CeilDiv(s0, 2)"},
      {equal(s1, ceil_div(s0 - s1, 2)).text(), "s1 == CeilDiv(s0 - s1, 2)"},
      {less_equal(ceil_div(s0, 2) + s1, 9).text(), "s1 + CeilDiv(s0, 2) <= 9"},
  };
  for (const auto& [is, expected] : all) EXPECT_EQ(is, expected);
  for (const Expr& e : {ceil_div(s0 - s1, 2), 3 - s1 * ceil_div(-s0, s1), floor_div(5 - s0, 4)})
    EXPECT_EQ(parse_expr(e.text()), e) << e.text();
}

TEST(Expr, CeilDivAndPower_AreWrittenWithTheOtherAtoms) {
  EXPECT_EQ(ceil_div(s0, 4).text(), "CeilDiv(s0, 4)");
  EXPECT_EQ(power(s0 + 1, 3), s0 * s0 * s0 + 3 * s0 * s0 + 3 * s0 + 1);
  EXPECT_EQ(power(s0, 0), Expr(1));
  for (std::int64_t n = -9; n < 10; ++n) {
    const auto at = [n](Symbol) { return std::optional(n); };
    EXPECT_EQ(ceil_div(s0, 4).evaluate(at), n >= 0 ? (n + 3) / 4 : n / 4) << n;
  }
}

TEST(Expr, Overflow_Throws) {
  const Expr big = INT64_MAX;
  EXPECT_THROW(static_cast<void>(big + 1), OverflowError);
  EXPECT_THROW(static_cast<void>((s0 * big) * 2), OverflowError);
  EXPECT_THROW(static_cast<void>(-Expr(INT64_MIN)), OverflowError);
  EXPECT_THROW(static_cast<void>(floor_div(INT64_MIN, -1)), OverflowError);
}

TEST(Expr, Evaluate_OverflowHasNoValue) {
  const auto huge = [](Symbol) { return INT64_MAX; };
  EXPECT_EQ((s0 * s1).evaluate(huge), std::nullopt);
  EXPECT_EQ((s0 * s1 - s0 * s0 + 3).evaluate(huge), 3);
  EXPECT_EQ((s0 * s1 * u0).evaluate(huge), std::nullopt);
  EXPECT_EQ(s0.evaluate([](Symbol) { return std::nullopt; }), std::nullopt);
}

TEST(Expr, Substitute_ReplacesEverywhereAtOnce) {
  const Expr e = s0 * s0 + floor_div(s0, 4) + s1;
  EXPECT_EQ(e.substitute({false, 0}, 8), s1 + 66);
  EXPECT_EQ((s0 - s1).substitute({{{false, 0}, s1}, {{false, 1}, s0}}), s1 - s0);
}

TEST(Expr, Text_IsCanonical) {
  EXPECT_EQ((1 + 2 * s0).text(), "2*s0 + 1");
  EXPECT_EQ(floor_div(s0, 4).text(), "s0 // 4");
  EXPECT_EQ((-floor_div(s0 + 1, 4)).text(), "-((s0 + 1) // 4)");
  EXPECT_EQ(max(u1, s0).text(), "Max(s0, u1)");
  EXPECT_EQ((s1 - s0 * s0 * 3).text(), "-3*s0*s0 + s1");
  EXPECT_EQ((mod(s0, 4) + u0).text([](Symbol s) { return s.unbacked ? "n" : "x.size(0)"; }),
            "n + Mod(x.size(0), 4)");
  EXPECT_EQ(Expr().text(), "0");
}

// Each level doubles the tree: an error, not an endless wait.
TEST(Expr, RunawayNesting_Throws) {
  Expr e = s0;
  const auto nest = [&] {
    for (std::int64_t i = 2; i < 60; ++i) e = max(e * s0, floor_div(e + s1, i));
  };
  EXPECT_THROW(nest(), OverflowError);
}

TEST(Expr, LongSums_StayLinear) {
  std::vector<Expr> counts;
  for (std::uint32_t i = 0; i < 2000; ++i) counts.push_back(Expr::symbol({true, i}));
  const Expr total = sum(counts);
  EXPECT_EQ(total.terms().size(), 2000u);
  EXPECT_EQ(floor_div(total * s0, s0), total);
}

// Nodes come and go on all of them at once; the thread sanitizer looks at the same.
TEST(Expr, ThreadsThatMakeTheSameNodes_ShareThem) {
  constexpr int kThreads = 4, kRounds = 20000;
  const Expr kept = floor_div(s0 * s0 + 7, 3) * u0;
  std::vector<int> shared(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) {
        const Expr mine = floor_div(s0 * s0 + 7, 3) * u0;
        const Expr passing = max(mine + i % 17, s1 * (i % 5) + 1), again = mine + i % 17;
        shared[static_cast<std::size_t>(t)] +=
            mine.identity() == kept.identity() &&
            max(again, s1 * (i % 5) + 1).identity() == passing.identity();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(shared, std::vector<int>(kThreads, kRounds));
}

// More nodes alive than the tables begin with.
TEST(Expr, ManyNodes_AreFoundAgain) {
  std::vector<Expr> all;
  for (std::int64_t i = 0; i < 20000; ++i) all.push_back(s0 * (i + 1) + mod(s1, i + 2));
  for (std::int64_t i = 0; i < 20000; i += 7)
    ASSERT_EQ((s0 * (i + 1) + mod(s1, i + 2)).identity(),
              all[static_cast<std::size_t>(i)].identity());
}

}  // namespace
}  // namespace lockstep::shapes::expr_test
