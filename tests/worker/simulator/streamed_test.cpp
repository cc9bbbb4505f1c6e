// The streamed manner, in which no rank's values are held, against the naive ones, in which every
// rank has a machine of its own: equal bytes, on random generator sections.
#include <random>
#include <set>
#include <string>

#include "random_scenario.h"
#include <gtest/gtest.h>

#include <lockstep/worker/simulator/answers/comparison.h>
#include <lockstep/worker/simulator/cluster/dry_run.h>

namespace lockstep::worker::simulator::streamed_test {
namespace {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}
  /// 0 to n-1.
  std::size_t operator()(std::size_t n) { return random_() % n; }

 private:
  std::mt19937_64 random_;
};

/// Drawn by every so many neighbours; 0: by all ranks together.
Draw drawn(const std::string& source, std::optional<std::size_t> dim, Distribution from,
           std::int64_t together = 1) {
  Draw draw;
  draw.source = source;
  draw.dim = dim;
  draw.from = std::move(from);
  if (together > 0) draw.per.axes = {{.stride = together, .size = kMaxWorldSize}};
  return draw;
}

Draw random_draw(Dice& dice, const std::string& source, std::optional<std::size_t> dim) {
  const auto low = static_cast<std::int64_t>(dice(4));
  std::int64_t high = low + static_cast<std::int64_t>(dice(5));
  if (dice(12) == 0) high = INT64_MAX;
  Distribution from = Distribution::uniform(low, high);
  if (dice(3) == 0) from = Distribution::choice({4, 4, 1 + static_cast<std::int64_t>(dice(3))});
  if (dice(6) == 0) from = Distribution::zipf(1, 3);
  if (dice(6) == 0) from = from.clamped({2, 5});
  Draw draw = drawn(source, dim, std::move(from), dice(4) == 0 ? 0 : dice(4) == 0 ? 3 : 1);
  if (dice(6) == 0) draw.per.axes = {{.stride = 1, .size = 4}};
  if (dice(9) == 0) draw.per.axes = {{.stride = 6, .size = 50}, {.stride = 2, .size = 3}};
  if (dice(12) == 0) draw.from = Share{static_cast<std::int64_t>(dice(90))};
  if (dice(12) == 0) draw.from = Batches{static_cast<std::int64_t>(dice(90)), 4};
  return draw;
}

/// A call of few narrow sizes, so that entries fit some ranks, all, or none.
GeneratedCall random_call(Dice& dice) {
  GeneratedCall call{.frame = dice(4) == 0 ? "g" : "f", .like = {}, .draws = {}};
  for (const std::string source : {"a", "b"}) {
    ScenarioValue value{.sizes = {3, 5}, .strides = {}, .marks = {}};
    if (dice(8) == 0) value.strides = {1, 3};
    for (std::size_t d = 0; d < 2; ++d)
      if (dice(3) == 0) call.draws.push_back(random_draw(dice, source, d));
    if (dice(5) == 0) value.marks = {static_cast<Mark>(dice(5)), Mark::None};
    call.like[source] = std::move(value);
  }
  call.like["n"] = {.kind = Kind::Int, .sizes = {}, .strides = {}, .marks = {}, .number = 3};
  if (dice(3) == 0) call.draws.push_back(random_draw(dice, "n", std::nullopt));
  call.like["train"] = {.kind = Kind::Bool, .sizes = {}, .strides = {}, .marks = {}, .number = 1};
  return call;
}

Block random_block(Dice& dice) {
  Block block{.call = random_call(dice), .variants = {}};
  block.repeat = static_cast<std::int64_t>(1 + dice(5));
  if (dice(3) == 0)
    block.variants.push_back(
        {.when = Variant::When::Every, .count = 2, .below = 0, .call = random_call(dice)});
  return block;
}

/// Generated calls, in every other scenario after random explicit ones.
Scenario generated_scenario(std::uint64_t seed) {
  Dice dice(seed);
  Scenario scenario = random_scenario(seed);
  if (dice(2) == 0) scenario.calls.clear();
  if (dice(2) == 0) scenario.config.consistency = Consistency::SameGraph;
  for (ScenarioCall& call :
       scenario.calls)  // the world grows: all ranks from there on are as its last
    if (!call.groups.empty() && call.present == RankSet::all(scenario.world_size))
      for (ScenarioGroup& group : call.groups)
        if (group.ranks.contains(Rank{scenario.world_size - 1})) {
          const RankSet::Run rest{scenario.world_size,
                                  scenario.world_size + static_cast<int>(seed % 70)};
          group.ranks.insert(rest);
          call.present.insert(rest);
        }
  scenario.world_size += static_cast<int>(seed % 70) + 1;
  scenario.generator.seed = seed;
  for (std::size_t n = 1 + dice(3); n > 0; --n)
    scenario.generator.blocks.push_back(random_block(dice));
  if (dice(4) == 0) {
    const auto away =
        static_cast<std::int32_t>(dice(static_cast<std::size_t>(scenario.world_size)));
    scenario.generator.absent[dice(scenario.generator.count())] = RankSet::of(Rank{away});
  }
  return scenario;
}

TEST(Streamed, RandomGenerators_GiveTheBytesOfOneMachinePerRank) {
  std::set<std::string> reached;
  for (std::uint64_t seed = 1; seed <= 600; ++seed) {
    const Scenario scenario = generated_scenario(seed);
    const Scenario held = expanded(scenario);
    const DryRunResult streamed = dry_run(scenario, Manner::Streamed);
    const std::string found = result_json(streamed);
    ASSERT_EQ(found, result_json(dry_run(held, Manner::Folded))) << "seed " << seed;
    if (seed % 4 == 0) {
      ASSERT_EQ(found, result_json(dry_run(held, Manner::EveryRank))) << "seed " << seed;
    }
    for (std::size_t c = scenario.calls.size(); c < streamed.calls.size(); ++c) {
      const CallOutcome& outcome = streamed.calls[c].outcome;
      reached.insert(
          std::string(outcome.error ? code_name(outcome.error->code) : outcome_name(outcome.kind)));
    }
  }
  for (const char* outcome :
       {"compiled", "reused", "fallback", "ABSENT_RANKS", "CONSTRAINT_VIOLATION"})
    EXPECT_EQ(reached.count(outcome), 1U) << outcome;
}

/// A world that takes several shares, subtrees and threads.
TEST(Streamed, WorldOfSeveralThreads_GivesTheBytesOfOneMachinePerRank) {
  for (const int world : {1024, 1025, 3001}) {
    for (const std::int64_t together : {1, 300}) {
      for (const Mark mark : {Mark::None, Mark::Static}) {
        Scenario scenario{.world_size = world, .config = {}, .calls = {}, .generator = {}};
        GeneratedCall call{.frame = "f", .like = {}, .draws = {}};
        call.like["x"] = {.sizes = {0, 0}, .strides = {}, .marks = {mark, Mark::None}};
        call.draws.push_back(drawn("x", 0, Distribution::uniform(0, 40), together));
        call.draws.push_back(drawn("x", 1, Distribution::uniform(1, 3), together));
        scenario.generator.blocks.push_back({.repeat = 4, .call = call, .variants = {}});
        const DryRunOptions options{.counterfactual = false};
        EXPECT_EQ(result_json(dry_run(scenario, Manner::Streamed, options)),
                  result_json(dry_run(scenario, Manner::Folded, options)))
            << world << " ranks, " << together << " together, " << mark_name(mark);
      }
    }
  }
}

TEST(FastModulo, RandomDivisorsAndDividends_AreAsDivided) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 200'000; ++i) {
    const std::uint64_t divisor = std::max<std::uint64_t>(2, random() >> random() % 63);
    const FastModulo by(divisor), by_power(std::uint64_t{2} << random() % 63);
    for (const std::uint64_t n : {random(), divisor - 1, divisor, ~std::uint64_t{0}, ~divisor})
      for (const std::uint64_t rest : {by.of(n), by.of_in_halves(n)})
        ASSERT_EQ(rest, n % divisor) << n << " by " << divisor;
    ASSERT_LT(by_power.of(random()), ~std::uint64_t{0});
  }
  for (int shift = 1; shift < 64; ++shift) {
    const std::uint64_t divisor = std::uint64_t{1} << shift, n = random();
    ASSERT_EQ(FastModulo(divisor).of(n), n % divisor);
    ASSERT_EQ(FastModulo(divisor).of_in_halves(n), n % divisor);
  }
}

TEST(Streamed, WhatDoesNotFit_IsRefusedWithTheEstimate) {
  Scenario scenario{.world_size = kMaxWorldSize, .config = {}, .calls = {}, .generator = {}};
  GeneratedCall call{.frame = "f", .like = {}, .draws = {}};
  call.like["x"] = {.sizes = {1}, .strides = {}, .marks = {}};
  call.draws.push_back(drawn("x", 0, Distribution::uniform(1, 9)));
  scenario.generator.blocks.push_back({.repeat = 100, .call = call, .variants = {}});
  const auto refused = too_large(scenario, {});
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->code, Code::BadInput);
  EXPECT_NE(refused->message.find("GiB"), std::string::npos);
  EXPECT_NE(refused->message.find("--no-counterfactual"), std::string::npos);
  EXPECT_FALSE(too_large(scenario, {.counterfactual = false}).has_value());
  scenario.generator.blocks[0].call.draws[0].per.axes.clear();
  EXPECT_FALSE(too_large(scenario, {}).has_value());
}

TEST(Streamed, WithoutCounterfactual_IsNullInTheResult) {
  const Scenario scenario{.world_size = 2, .config = {}, .calls = {}, .generator = {}};
  EXPECT_NE(
      result_json(dry_run(scenario, {.counterfactual = false})).find("\"uncoordinated\": null}"),
      std::string::npos);
}

TEST(Streamed, Progress_TellsOfEveryCallAndEveryRankAlone) {
  Scenario scenario{.world_size = 130, .config = {}, .calls = {}, .generator = {}};
  GeneratedCall call{.frame = "f", .like = {}, .draws = {}};
  call.like["x"] = {.sizes = {1}, .strides = {}, .marks = {}};
  call.draws.push_back(drawn("x", 0, Distribution::uniform(1, 9)));
  scenario.generator.blocks.push_back({.repeat = 3, .call = call, .variants = {}});
  std::vector<std::string> told;
  (void)dry_run(
      scenario, {.progress = [&](std::string_view what, std::size_t done, std::size_t of) {
        told.push_back(std::to_string(done) + "/" + std::to_string(of) + " " + std::string(what));
      }});
  ASSERT_EQ(told.size(), 6U);
  EXPECT_EQ(told[2], "2/3 calls");
  EXPECT_EQ(told[5], "130/130 ranks alone");
}

}  // namespace
}  // namespace lockstep::worker::simulator::streamed_test
