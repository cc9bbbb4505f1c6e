// The prover against exhaustive search: what a shape environment proves or simplifies must hold at
// every point that satisfies the ranges, the guards and the asserts.
#include "random_trace.h"
#include <gtest/gtest.h>

namespace lockstep::shapes {
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
}  // namespace lockstep::shapes
