#include <set>
#include <string>

#include "oracle.h"
#include "random_scenario.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <lockstep/worker/simulator/cluster/dry_run.h>

namespace lockstep::worker::simulator::dry_run_test {
namespace {

using nlohmann::ordered_json;

/// The result without what an oracle that sends nothing cannot know.
std::string comparable(const DryRunResult& result) {
  ordered_json json = ordered_json::parse(result_json(result));
  json["totals"].erase("bytes_per_rank_max");
  json["totals"].erase("rounds");
  for (auto& call : json["calls"])
    if (call.contains("error")) call["error"].erase("message");
  return json.dump();
}

constexpr std::uint64_t kSeeds = 4000;

TEST(DryRun, RandomScenarios_AgreeWithTheOracle) {
  std::set<std::string> reached;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Scenario scenario = random_scenario(seed);
    const DryRunResult result = dry_run(scenario, Manner::Folded);
    ASSERT_EQ(comparable(result), oracle_result(scenario)) << "seed " << seed << "\n"
                                                           << scenario_text(scenario);
    for (const CallResult& call : result.calls) {
      reached.insert(std::string(outcome_name(call.outcome.kind)));
      if (call.outcome.error) reached.insert(std::string(code_name(call.outcome.error->code)));
    }
  }
  const std::set<std::string> all{"compiled",
                                  "reused",
                                  "fallback",
                                  "error",
                                  "ABSENT_RANKS",
                                  "FRAME_MISMATCH",
                                  "SOURCE_MISMATCH",
                                  "KIND_MISMATCH",
                                  "DTYPE_MISMATCH",
                                  "NDIM_MISMATCH",
                                  "CONSTANT_MISMATCH",
                                  "MARK_CONFLICT",
                                  "CONSTRAINT_VIOLATION"};
  EXPECT_EQ(reached, all);
}

TEST(DryRun, RankByRankAndFolded_GiveTheSameBytes) {
  for (std::uint64_t seed = 1; seed <= kSeeds / 4; ++seed) {
    const Scenario scenario = random_scenario(seed);
    ASSERT_EQ(result_json(dry_run(scenario, Manner::EveryRank)),
              result_json(dry_run(scenario, Manner::Folded)))
        << "seed " << seed << "\n"
        << scenario_text(scenario);
  }
}

TEST(DryRun, ScenarioText_ReadsBackAsTheScenario) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    Scenario scenario = random_scenario(seed);
    auto read = parse_scenario(scenario_text(scenario), "random");
    ASSERT_TRUE(read.has_value()) << read.error().message;
    EXPECT_EQ(result_json(dry_run(*read)), result_json(dry_run(scenario))) << "seed " << seed;
  }
}

/// Worlds in which few classes hold many ranks each, in ragged runs.
Scenario wide_scenario(int world, int run, std::uint64_t seed) {
  Scenario scenario = random_scenario(seed);
  scenario.world_size = world;
  for (ScenarioCall& call : scenario.calls) {
    const std::size_t groups = call.groups.size();
    if (groups == 0) continue;
    for (ScenarioGroup& group : call.groups) group.ranks = {};
    for (int first = 0, g = 0; first < world; first += run + g % 3, ++g)
      call.groups[static_cast<std::size_t>(g) % groups].ranks.insert(
          {first, std::min(first + run + g % 3, world) - 1});
    std::erase_if(call.groups, [](const ScenarioGroup& g) { return g.ranks.empty(); });
    call.present = RankSet::all(world);
  }
  return scenario;
}

TEST(DryRun, FoldedRunsOfRanks_CountTheSameBytesAsEveryRank) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    const int world = 2 + static_cast<int>(seed * 7 % 90);
    const Scenario scenario = wide_scenario(world, 1 + static_cast<int>(seed % 23), seed);
    ASSERT_EQ(result_json(dry_run(scenario, Manner::EveryRank)),
              result_json(dry_run(scenario, Manner::Folded)))
        << "seed " << seed << ", " << world << " ranks\n"
        << scenario_text(scenario);
  }
}

}  // namespace
}  // namespace lockstep::worker::simulator::dry_run_test
