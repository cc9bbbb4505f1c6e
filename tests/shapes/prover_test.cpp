// The prover against exhaustive search: what a shape environment proves or simplifies must hold at
// every point that satisfies the ranges, the guards and the asserts.
#include "random_trace.h"
#include <gtest/gtest.h>

namespace lockstep::shapes::prover_test {
namespace {

TEST(Prover, RandomTraces_AreNeverWrong) {
  testing::Tally tally;
  const std::uint64_t seed = 31337, runs = 5000;
  for (std::uint64_t i = seed; i < seed + runs; ++i) {
    const auto fault = testing::fault_of_trace(i, tally);
    ASSERT_FALSE(fault) << "seed " << i << ": " << *fault;
  }
  const auto number = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
  std::printf(
      "seeds from %llu: %llu proven, %llu unknown; one answer fits every point for %llu of "
      "%llu unknown ones over small ranges\n",
      number(seed), number(tally.proven), number(tally.open), number(tally.missed),
      number(tally.missed + tally.undecided));
  EXPECT_GT(tally.proven, 10000u);
}

// Three symbols without bounds, and what is known of them.
struct Linear {
  ShapeEnv env;
  std::array<Expr, 3> x;
  std::vector<Predicate> known;

  explicit Linear(std::mt19937_64& random) {
    for (Expr& e : x) e = env.unbacked("u", {}, {"t.cpp", 1});
    for (int i = 0; i < 2; ++i) {
      const Expr fact = form(random) - x[static_cast<std::size_t>(i)];
      known.push_back(greater_equal(fact, 0));
      if (known.back().constant()) known.pop_back();
    }
    for (const Predicate& p : known) {
      if (env.prove(p) == std::nullopt) env.check(p, {"t.cpp", 2});
    }
  }
  // Coefficients and a constant from -3 to 3.
  [[nodiscard]] Expr form(std::mt19937_64& random) const {
    const auto draw = [&] { return static_cast<std::int64_t>(random() % 7) - 3; };
    Expr out = draw();
    for (const Expr& e : x) out = out + draw() * e;
    return out;
  }
  // Whether it holds wherever all that is known does, in a box.
  [[nodiscard]] bool holds_in_box(const Predicate& asked) const {
    for (std::int64_t point = 0; point < 11 * 11 * 11; ++point) {
      const std::array at = {point % 11 - 5, point / 11 % 11 - 5, point / 121 - 5};
      const Valuation values = [&](Symbol s) { return std::optional(at[s.serial]); };
      const auto holds = [&](const Predicate& p) { return p.evaluate(values) == true; };
      if (std::all_of(known.begin(), known.end(), holds) && !holds(asked)) return false;
    }
    return true;
  }
};

TEST(Prover, SumsOfTwoFacts_AreProven) {
  std::mt19937_64 random(2718);
  int asked = 0, missed = 0;
  for (int round = 0; round < 2000; ++round) {
    const Linear linear(random);
    if (linear.known.size() < 2) continue;
    const auto times = [&] { return static_cast<std::int64_t>(1 + random() % 3); };
    const Predicate sum =
        greater_equal(times() * linear.known[0].expr + times() * linear.known[1].expr, -times());
    if (sum.constant()) continue;
    ++asked;
    if (linear.env.prove(sum) != true) ++missed;
  }
  std::printf("seed 2718: %d sums of two facts, %d not proven\n", asked, missed);
  EXPECT_GT(asked, 1500);
  EXPECT_EQ(missed, 0);
}

TEST(Prover, AnythingOfLinearFacts_IsNeverWrong) {
  std::mt19937_64 random(3141);
  int proven = 0;
  for (int round = 0; round < 10000; ++round) {
    const Linear linear(random);
    const Predicate asked = greater_equal(linear.form(random), 0);
    const auto answer = linear.env.prove(asked);
    if (!answer || asked.constant()) continue;
    ++proven;
    ASSERT_TRUE(linear.holds_in_box(*answer ? asked : asked.negated())) << "round " << round;
  }
  std::printf("seed 3141: %d proven\n", proven);
  EXPECT_GT(proven, 50);
}

TEST(Prover, ChainWhereNeitherFactBoundsTheRest_IsDecided) {
  ShapeEnv env;
  const Expr x = env.unbacked("x", {}, {}), y = env.unbacked("y", {}, {}),
             n = env.unbacked("n", {}, {});
  env.check(greater(x, 2 * y), {"t.cpp", 1});
  env.check(less_equal(n, y), {"t.cpp", 2});
  EXPECT_EQ(env.prove(greater_equal(n, x)), std::nullopt);  // y may be below zero
  env.check(greater_equal(y, 2), {"t.cpp", 3});
  EXPECT_EQ(env.prove(greater_equal(n, x)), false);
  EXPECT_EQ(env.prove(greater_equal(x, n + 3)), true);
  EXPECT_EQ(env.prove(greater_equal(x, n + 4)), std::nullopt);
}

TEST(Prover, SameQuestions_SameAnswers) {
  std::array<std::string, 2> logs;
  for (auto& log : logs) {
    std::mt19937_64 random(5);
    for (int round = 0; round < 200; ++round) {
      testing::RandomTrace trace(random);
      for (int i = 0; i < 3; ++i) {
        ASSERT_TRUE(trace.say(testing::random_small_predicate(random), i % 2 == 0));
      }
      for (const auto& guard : trace.env.guards()) log += guard.predicate.text() + ";";
      for (const auto& a : trace.env.deferred_asserts()) log += a.predicate.text() + ";";
      for (const auto& [s, e] : trace.env.replacements()) log += s.name() + "=" + e.text() + ";";
    }
  }
  EXPECT_EQ(logs[0], logs[1]);
  EXPECT_GT(logs[0].size(), 1000u);
}

}  // namespace
}  // namespace lockstep::shapes::prover_test
