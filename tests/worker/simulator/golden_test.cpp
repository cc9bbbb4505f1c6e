// The scenarios of tests/scenarios, each for one rule, against the result that stands beside it
// (without messages, which are free to change). Bytes and rounds are those of the agreement: a
// change of them is a change of its cost.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "oracle.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <lockstep/worker/simulator/cluster/dry_run.h>

namespace lockstep::worker::simulator::golden_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr int kOracleRanks = 12;

std::vector<std::string> scenarios() {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(LOCKSTEP_SCENARIOS)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".json") && !name.ends_with(".result.json") &&
        !name.ends_with(".schema.json"))
      out.push_back(name.substr(0, name.size() - 5));
  }
  std::sort(out.begin(), out.end());
  return out;
}

ordered_json expected(const std::string& name) {
  std::ifstream file(fs::path(LOCKSTEP_SCENARIOS) / (name + ".result.json"));
  return ordered_json::parse(file);
}

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, Scenario_GivesTheResultBesideIt) {
  const auto scenario = load_scenario(fs::path(LOCKSTEP_SCENARIOS) / (GetParam() + ".json"));
  ASSERT_TRUE(scenario.has_value()) << scenario.error().message;
  ordered_json found = ordered_json::parse(result_json(dry_run(*scenario)));
  for (auto& call : found["calls"])
    if (call.contains("error")) call["error"].erase("message");
  for (const char* list : {"alone", "together"})
    if (found.contains("faults"))
      for (auto& fault : found["faults"][list]) fault.erase("message");
  EXPECT_EQ(found.dump(1), expected(GetParam()).dump(1));
  if (scenario->world_size <= kOracleRanks) {
    ordered_json decided = expected(GetParam());  // the oracle sends nothing and has no clock
    decided.erase("cost");
    decided["totals"].erase("bytes_per_rank_max");
    decided["totals"].erase("rounds");
    decided.erase("faults");  // and nothing goes wrong in it
    EXPECT_EQ(oracle_result(expanded(*scenario)), decided.dump());
  }
}

INSTANTIATE_TEST_SUITE_P(All, Golden, testing::ValuesIn(scenarios()),
                         [](const auto& about) { return about.param; });

class Shipped : public testing::TestWithParam<std::string> {};

TEST_P(Shipped, Scenario_DivergesAloneAndAgreesWithTheOracle) {
  const fs::path path = fs::path(LOCKSTEP_EXAMPLE_SCENARIOS) / (GetParam() + ".json");
  const auto small = load_scenario(path, {.world_size = 8, .seed = {}});
  ASSERT_TRUE(small.has_value()) << small.error().message;
  const DryRunResult result = dry_run(*small);
  ordered_json found = ordered_json::parse(result_json(result));
  for (auto& call : found["calls"]) EXPECT_FALSE(call.contains("error")) << call.dump();
  EXPECT_EQ(result.uncoordinated->first_divergent_call, 0U);
  found["totals"].erase("bytes_per_rank_max");
  found["totals"].erase("rounds");
  found.erase("cost");
  EXPECT_EQ(oracle_result(expanded(*small)), found.dump());
  const auto large = load_scenario(path, {.world_size = 16'384, .seed = {}});
  EXPECT_TRUE(large.has_value()) << large.error().message;
}

INSTANTIATE_TEST_SUITE_P(All, Shipped,
                         testing::Values("gpu_cluster", "moe_routing", "sparse_features",
                                         "text_lengths"),
                         [](const auto& about) { return about.param; });

}  // namespace
}  // namespace lockstep::worker::simulator::golden_test
