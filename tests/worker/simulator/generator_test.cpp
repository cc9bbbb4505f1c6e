#include <set>
#include <string>

#include <gtest/gtest.h>

#include <lockstep/worker/simulator/cluster/dry_run.h>
#include <lockstep/worker/simulator/input/scenario.h>

namespace lockstep::worker::simulator::generator_test {
namespace {

std::string with_generator(const std::string& generator) {
  return R"({"format": "lockstep.scenario/1", "world_size": 6, "generator": )" + generator + "}";
}
std::string with_size(const std::string& draw) {
  return with_generator(R"({"calls": [{"frame": "f", "repeat": 20, "values": {"x": {"tensor": [)" +
                        draw + R"(, 4], "marks": {"0": "dynamic"}}}}]})");
}

Scenario read(const std::string& text, const ScenarioOptions& options = {}) {
  auto scenario = parse_scenario(text, "g.json", options);
  EXPECT_TRUE(scenario.has_value()) << scenario.error().message;
  return scenario ? expanded(*scenario) : Scenario{};
}

/// The size of dim 0 on a rank.
std::int64_t size_on(const ScenarioCall& call, int rank) {
  for (const ScenarioGroup& group : call.groups)
    if (group.ranks.contains(Rank{rank})) return group.values.at("x").sizes[0];
  return -1;
}

TEST(Generator, UniformSizes_AreWithinBoundsAndReachThem) {
  const Scenario scenario = read(with_size(R"({"uniform": [2, 5]})"));
  ASSERT_EQ(scenario.calls.size(), 20U);
  std::set<std::int64_t> seen;
  for (const ScenarioCall& call : scenario.calls) {
    EXPECT_EQ(call.present, RankSet::all(6));
    for (int r = 0; r < 6; ++r) seen.insert(size_on(call, r));
  }
  EXPECT_EQ(seen, (std::set<std::int64_t>{2, 3, 4, 5}));
}

TEST(Generator, SameSeed_SameCalls_OtherSeed_OtherCalls) {
  const std::string text = with_size(R"({"uniform": [0, 1000]})");
  EXPECT_EQ(read(text, {.world_size = {}, .seed = 5}), read(text, {.world_size = {}, .seed = 5}));
  EXPECT_FALSE(read(text, {.world_size = {}, .seed = 5}) ==
               read(text, {.world_size = {}, .seed = 6}));
}

/// One seed's calls were once those of the seed before it, a call later.
TEST(Generator, NeighbouringSeeds_HaveNoCallInCommon) {
  const std::string text = with_size(R"({"uniform": [0, 1000000000]})");
  std::set<std::int64_t> seen;
  for (std::uint64_t seed = 0; seed < 4; ++seed)
    for (const ScenarioCall& call : read(text, {.world_size = {}, .seed = seed}).calls)
      seen.insert(size_on(call, 0));
  EXPECT_EQ(seen.size(), 4U * 20U);
}

TEST(Generator, LargerWorld_KeepsTheSizesOfTheRanksItHad) {
  const std::string text = with_size(R"({"uniform": [0, 1000]})");
  const Scenario small = read(text), large = read(text, {.world_size = 60, .seed = {}});
  EXPECT_EQ(large.world_size, 60);
  for (std::size_t c = 0; c < small.calls.size(); ++c)
    for (int r = 0; r < 6; ++r) EXPECT_EQ(size_on(small.calls[c], r), size_on(large.calls[c], r));
}

TEST(Generator, DrawPerCall_IsTheSameOnAllRanks) {
  const Scenario scenario = read(with_size(R"({"choice": [3, 9], "per": "call"})"),
                                 {.world_size = kMaxWorldSize, .seed = {}});
  std::set<std::int64_t> seen;
  for (const ScenarioCall& call : scenario.calls) {
    ASSERT_EQ(call.groups.size(), 1U);
    seen.insert(call.groups[0].values.at("x").sizes[0]);
  }
  EXPECT_EQ(seen, (std::set<std::int64_t>{3, 9}));
}

TEST(Generator, FullRangeOfInts_DoesNotOverflow) {
  const Scenario scenario = read(with_generator(
      R"({"calls": [{"frame": "f", "values": {"n": {"int": {"uniform": [-9223372036854775808, 9223372036854775807]}}}}]})"));
  EXPECT_EQ(scenario.calls.size(), 1U);
}

TEST(Generator, AbsentRanks_DoNotMakeTheCall) {
  const Scenario scenario = read(with_generator(
      R"({"calls": [{"frame": "f", "repeat": 3, "values": {}}], "absent": [{"call": 1, "ranks": "2-3"}]})"));
  EXPECT_EQ(scenario.calls[1].present.text(), "0-1,4-5");
  const DryRunResult result = dry_run(scenario);
  EXPECT_EQ(result.calls[1].outcome.error->code, Code::AbsentRanks);
  EXPECT_EQ(result.calls[2].outcome.kind, CallOutcome::Kind::Reused);
}

TEST(Generator, Mistakes_AreNamedWithPath) {
  struct Bad {
    std::string text;
    const char *path, *says;
  };
  for (const Bad& bad :
       {Bad{with_generator("[]"), "generator: ", "an object"},
        Bad{with_generator("{}"), "generator.calls: ", "missing"},
        Bad{with_generator(R"({"calls": [], "runs": 1})"), "generator.runs: ", "unknown key"},
        Bad{with_generator(R"({"calls": [], "seed": -1})"), "generator.seed: ", "too small"},
        Bad{with_generator(R"({"calls": [{"values": {}}]})"),
            "generator.calls[0].frame: ", "missing"},
        Bad{with_generator(R"({"calls": [], "absent": [{"call": 0, "ranks": "1"}]})"),
            "generator.absent[0].call: ", "0 calls"},
        Bad{with_size("{}"), "generator.calls[0].values.x.tensor[0]: ", "one of uniform, choice"},
        Bad{with_size(R"({"uniform": [1]})"),
            "generator.calls[0].values.x.tensor[0].uniform: ", "least"},
        Bad{with_size(R"({"uniform": [5, 1]})"),
            "generator.calls[0].values.x.tensor[0].uniform: ", "above"},
        Bad{with_size(R"({"uniform": [-1, 1]})"),
            "generator.calls[0].values.x.tensor[0].uniform[0]: ", "too small"},
        Bad{with_size(R"({"choice": []})"),
            "generator.calls[0].values.x.tensor[0].choice: ", "nothing"},
        Bad{with_size(R"({"choice": [1], "per": "node"})"),
            "generator.calls[0].values.x.tensor[0].per: ", "rank, call"},
        Bad{with_size("-1"), "generator.calls[0].values.x.tensor[0]: ", "too small"}}) {
    const auto scenario = parse_scenario(bad.text, "g.json");
    ASSERT_FALSE(scenario.has_value()) << bad.text;
    EXPECT_TRUE(scenario.error().message.starts_with(std::string("g.json: ") + bad.path))
        << scenario.error().message;
    EXPECT_NE(scenario.error().message.find(bad.says), std::string::npos)
        << scenario.error().message;
  }
}

TEST(Generator, OptionsWithoutGenerator_AreRefused) {
  const std::string text = R"({"format": "lockstep.scenario/1", "world_size": 2, "calls": []})";
  for (const ScenarioOptions& options : {ScenarioOptions{.world_size = 4, .seed = {}},
                                         ScenarioOptions{.world_size = {}, .seed = 1}}) {
    const auto scenario = parse_scenario(text, "g.json", options);
    ASSERT_FALSE(scenario.has_value());
    EXPECT_NE(scenario.error().message.find("need a generator section"), std::string::npos);
  }
}

}  // namespace
}  // namespace lockstep::worker::simulator::generator_test
