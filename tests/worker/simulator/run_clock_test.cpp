// What dry runs take: by hand where it can be worked out, and the same nanoseconds in every manner.
#include <random>

#include "random_scenario.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <lockstep/worker/simulator/cluster/cost_report.h>
#include <lockstep/worker/simulator/cluster/dry_run.h>
#include <lockstep/worker/simulator/report/time_trace.h>

namespace lockstep::worker::simulator::run_clock_test {
namespace {

Scenario read(const std::string& text) {
  auto scenario = parse_scenario(text, "test");
  if (!scenario) throw std::runtime_error(scenario.error().message);
  return *std::move(scenario);
}

std::string refusal(const std::string& cost) {
  const auto scenario = parse_scenario(
      R"({"format": "lockstep.scenario/1", "world_size": 2, "calls": [], "cost": )" + cost + "}",
      "test");
  return scenario ? "" : scenario.error().message;
}

/// A step of two ranks over a network of 1 us and 1 GB/s.
Scenario two_ranks(const std::string& cost, const std::string& second = "[3]") {
  return read(R"({"format": "lockstep.scenario/1", "world_size": 2, "calls": [)"
              R"({"frame": "f", "inputs": [{"ranks": "0", "values": {"x": {"tensor": [3]}}},)"
              R"({"ranks": "1", "values": {"x": {"tensor": )" +
              second + R"(}}}]}], "cost": {"network": {"alpha_us": 1, "beta_gbps": 1})" + cost +
              "}}");
}

TEST(RunClock, AStepAfterACompile_TakesTheirTimes) {
  const auto result = dry_run(two_ranks(R"(, "compile": {"constant_us": 5000, "per_source_us": 7},)"
                                        R"( "step": {"constant_us": 40, "per_element_ns": 2})",
                                        "[10]"));
  ASSERT_TRUE(result.timing);
  const CallTiming& call = result.timing->calls.at(0);
  EXPECT_EQ(call.compile_ns, 5'007'000);
  EXPECT_EQ(call.step_ns, 40'020);
  EXPECT_EQ(result.timing->ranks.step_ns, (std::vector<std::int64_t>{40'006, 40'020}));
  EXPECT_EQ(result.timing->ranks.compile_ns, (std::vector<std::int64_t>{5'007'000, 5'007'000}));
  EXPECT_EQ(call.last_rank, -1);
}

TEST(RunClock, AHit_IsOneVote) {
  auto scenario = two_ranks("");
  scenario.calls.push_back(scenario.calls[0]);
  const auto result = dry_run(scenario);
  EXPECT_EQ(result.timing->calls.at(1).agreement_ns, 1064);  // 64 bytes
  EXPECT_EQ(result.timing->calls.at(1).compile_ns, 0);
}

TEST(RunClock, TheLateRank_IsWaitedForAndNamed) {
  const auto scenario = two_ranks(R"(, "skew_us": {"share": 500}, "compile": {})");
  // 250 us each; so nobody is late.
  EXPECT_EQ(dry_run(scenario).timing->calls[0].last_rank, -1);
  const auto late = dry_run(two_ranks(R"(, "skew_us": {"batches": {"total": 500, "batch": 499}},)"
                                      R"( "compile": {})"));
  EXPECT_EQ(late.timing->calls[0].last_rank, 0);
  EXPECT_GE(late.timing->ranks.wait_ns[1], 498'000);
  EXPECT_LT(late.timing->ranks.wait_ns[0], 10'000);
}

TEST(RunClock, AbsentRanks_CostTheDeadline) {
  auto scenario = two_ranks(R"(, "deadline_s": 2.5)");
  scenario.calls[0].groups.pop_back();
  scenario.calls[0].present = RankSet::of(Rank{0});
  const auto result = dry_run(scenario);
  EXPECT_EQ(result.timing->ranks.wait_ns, (std::vector<std::int64_t>{2'500'000'000, 0}));
  EXPECT_EQ(result.timing->calls[0].end_ns, 2'500'000'000);
}

TEST(RunClock, ACollectiveOfTheStep_WaitsForTheSlowestRank) {
  const auto result =
      dry_run(two_ranks(R"(, "compile": {}, "step": {"per_element_ns": 1000, "collectives": )"
                        R"([{"all_reduce": 8000}, {"all_to_all": 20000}]})",
                        "[13]"));
  const std::int64_t collectives = (1000 + 8000) + (1000 + 10'000);
  EXPECT_EQ(result.timing->calls[0].step_ns, 13'000 + collectives);
  EXPECT_EQ(result.timing->ranks.step_ns[0], 3'000 + collectives);
  EXPECT_GE(result.timing->ranks.wait_ns[0], 10'000);
}

TEST(RunClock, LongMessages_GoRoundARing) {
  const NetworkModel network{
      .name = "n", .between = {.latency_ns = 1000, .bytes_per_us = 1000}, .within = {}};
  using Kind = DataCollective::Kind;
  const auto ns = [&](Kind kind, std::int64_t bytes, int size) {
    return collective_ns({kind, bytes}, network, size);
  };
  EXPECT_EQ(ns(Kind::AllReduce, 9999, 8), 3 * (1000 + 9999));
  EXPECT_EQ(ns(Kind::AllReduce, 9999, 9), 5 * (1000 + 9999));
  EXPECT_EQ(ns(Kind::AllReduce, 80'000, 8), 14 * (1000 + 10'000));
  EXPECT_EQ(ns(Kind::ReduceScatter, 8000, 8), 3000 + 7000);
  EXPECT_EQ(ns(Kind::ReduceScatter, 80'000, 8), 7 * (1000 + 10'000));
  EXPECT_EQ(ns(Kind::AllGather, 40'000, 8), 3000 + 35'000);
  EXPECT_EQ(ns(Kind::AllGather, 80'000, 8), 7 * (1000 + 10'000));
  EXPECT_EQ(ns(Kind::AllToAll, 1600, 16), 4 * (1000 + 800));
  EXPECT_EQ(ns(Kind::AllToAll, 16'000, 16), 1000 + 15 * 1000);
  EXPECT_EQ(ns(Kind::AllToAll, 160'000, 16), 15 * (1000 + 10'000));
  EXPECT_EQ(ns(Kind::AllReduce, 1 << 20, 1), 0);
  EXPECT_LE(ns(Kind::AllReduce, INT64_MAX / 4, 1 << 24), kLongest);
}

/// Costs in which everything has a part.
std::string random_costs(std::mt19937_64& random) {
  const std::uint64_t hosts = 1 + random() % 9;
  std::string out = R"({"network": {"alpha_us": )" + std::to_string(random() % 30) +
                    R"(.25, "beta_gbps": 0.)" + std::to_string(1 + random() % 9) +
                    R"(, "ranks_per_host": )" + std::to_string(hosts) +
                    R"(, "within": )"
                    R"({"alpha_us": 0.5, "beta_gbps": 3}})";
  if (random() % 3 != 0) out += R"(, "skew_ns": {"uniform": [0, 90000]})";
  out += R"(, "compile": {"constant_us": 900, "per_source_us": 30, "per_symbol_us": 1.5})";
  const bool device = random() % 2 == 0;
  if (device)
    out += R"(, "device": {"memory_gbps": 1.5, "memory_gb": 0.001, "launch_us": 3},)"
           R"( "data_network": {"ranks_per_host": )" +
           std::to_string(hosts) + R"(, "within": "nvlink4", "between": "infiniband_ndr"})";
  out += R"(, "step": {"constant_us": 20, "per_element_ns": 0.5, )";
  if (device)
    out += R"("kernels": [{"count": 2, "bytes": 900, "bytes_per_element": 40}],)"
           R"( "memory": {"bytes_per_element": 8}, )";
  out += R"("collectives": [{"all_reduce": 30000}]})";
  return out + R"(, "frames": {"g": {"step": {}}}})";
}

CostModel costs_of(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  return *read(R"({"format": "lockstep.scenario/1", "world_size": 2, "calls": [], )"
               R"("generator": {"calls": [{"frame": "g", "values": {}}]}, "cost": )" +
               random_costs(random) + "}")
              .cost;
}

/// Everything that a result says, spans and sums per rank too.
void expect_equal(const DryRunResult& a, const DryRunResult& b, std::uint64_t seed) {
  ASSERT_EQ(result_json(a), result_json(b)) << "seed " << seed;
  ASSERT_EQ(*a.timing, *b.timing) << "seed " << seed;
  ASSERT_EQ(time_trace(a), time_trace(b)) << "seed " << seed;
}

TEST(RunClock, ExplicitCalls_TakeTheSameInEveryManner) {
  const DryRunOptions options{.counterfactual = false, .most_spans = 100'000};
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Scenario scenario = random_scenario(seed);
    scenario.cost = costs_of(seed);
    const DryRunResult every = dry_run(scenario, Manner::EveryRank, options);
    expect_equal(every, dry_run(scenario, Manner::Folded, options), seed);
    expect_equal(every, dry_run(scenario, Manner::Streamed, options), seed);
  }
}

TEST(RunClock, DrawnCalls_TakeTheSameInEveryManner) {
  const DryRunOptions options{.counterfactual = false, .most_spans = 100'000};
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    std::mt19937_64 random(seed);
    Scenario scenario = read(
        R"({"format": "lockstep.scenario/1", "world_size": )" + std::to_string(1 + random() % 40) +
        R"(, "generator": {"seed": )" + std::to_string(seed) +
        R"(, "calls": [{"frame": "f", )"
        R"("repeat": 6, "values": {"x": {"tensor": [{"uniform": [0, 9]}, 4]}, "n": {"int": )"
        R"({"choice": [3, 3, 4], "per": "call"}}}, "instead": [{"every": 3, "frame": "g", )"
        R"("values": {"y": {"tensor": [{"uniform": [1, 900]}], "marks": {"0": ")" +
        (random() % 4 == 0 ? "static" : "dynamic") + R"("}}}}]}]}, "cost": )" +
        random_costs(random) + "}");
    const DryRunResult streamed = dry_run(scenario, Manner::Streamed, options);
    expect_equal(streamed, dry_run(scenario, Manner::Folded, options), seed);
    expect_equal(streamed, dry_run(scenario, Manner::EveryRank, options), seed);
  }
}

TEST(RunClock, WithoutCosts_TheResultIsAsBefore) {
  Scenario scenario = random_scenario(3);
  const std::string before = result_json(dry_run(scenario));
  EXPECT_EQ(before.find("\"cost\""), std::string::npos);
  scenario.cost = costs_of(3);
  const std::string timed = result_json(dry_run(scenario));
  const std::string shared = before.substr(0, before.size() - 2);  // all but its last brace
  EXPECT_EQ(timed.substr(0, shared.size()), shared);
  EXPECT_TRUE(nlohmann::json::parse(timed).contains("cost"));
}

TEST(RunClock, HugeTimes_AreCapped) {
  auto scenario =
      two_ranks(R"(, "skew_us": {"uniform": [9000000000000000000, 9100000000000000000]},)"
                R"( "compile": {"constant_us": 1e9, "per_source_us": 1e9},)"
                R"( "step": {"constant_us": 1e9, "per_element_ns": 1e9})",
                "[9000000000000000000]");
  scenario.calls.resize(9000, scenario.calls[0]);
  const auto result = dry_run(scenario, {.counterfactual = false});
  EXPECT_LE(result.timing->end_ns, 2 * kLongestSum);
  for (const CallTiming& call : result.timing->calls) EXPECT_GE(call.end_ns, call.begin_ns);
}

TEST(CostReader, WhatIsWrong_IsNamedByItsPath) {
  const std::pair<const char*, const char*> cases[] = {
      {"[]", "cost: expected an object"},
      {"{}", "cost.network"},
      {R"({"network": "token-ring"})", "cost.network: \"token-ring\" is neither"},
      {R"({"network": {"alpha_us": 1}})", "cost.network.beta_gbps"},
      {R"({"network": {"alpha_us": -1, "beta_gbps": 1}})", "cost.network.alpha_us"},
      {R"({"network": {"alpha_us": 1, "beta_gbps": 1, "within": {"alpha_us": 1}}})",
       "cost.network.within.beta_gbps"},
      {R"({"network": "tcp", "skew_ns": {"share": 1}, "skew_us": {"share": 1}})",
       "cost: skew_ns and skew_us exclude each other"},
      {R"({"network": "tcp", "skew_us": 5})", "cost.skew_us: expected an object"},
      {R"({"network": "tcp", "skew_us": {"uniform": [-1, 2]}})", "cost.skew_us.uniform[0]"},
      {R"({"network": "tcp", "compile": {"constant": 5}})", "cost.compile.constant"},
      {R"({"network": "tcp", "step": {"collectives": [{"gossip": 5}]}})",
       "cost.step.collectives[0].gossip"},
      {R"({"network": "tcp", "step": {"collectives": [{}]}})", "cost.step.collectives[0]"},
      {R"({"network": "tcp", "frames": {"f": {"compile": 1}}})", "cost.frames.f.compile"},
      {R"({"network": "tcp", "frames": {"evalute": {}}})",
       "cost.frames.evalute: no call of the scenario has this frame"},
      {R"({"network": "tcp", "record": "../x"})", "cost.record"},
      {R"({"network": "tcp", "deadline_s": 0})", "cost.deadline_s"},
  };
  for (const auto& [cost, message] : cases) {
    const std::string said = refusal(cost);
    EXPECT_NE(said.find(message), std::string::npos) << cost << ": " << said;
    EXPECT_TRUE(said.ends_with(".")) << said;
  }
  EXPECT_EQ(refusal(R"({"network": "tcp"})"), "");
}

}  // namespace
}  // namespace lockstep::worker::simulator::run_clock_test
