// Faults in a dry run: how they are read and drawn, that a job without any comes to what a dry run
// says, and what each does at whatever moment it strikes.
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "random_scenario.h"
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <lockstep/worker/simulator/answers/comparison.h>
#include <lockstep/worker/simulator/cluster/dry_run.h>
#include <lockstep/worker/simulator/cluster/timed_run.h>

namespace lockstep::worker::simulator::fault_test {
namespace {

using namespace std::chrono_literals;

constexpr int kRanks = 6;
constexpr std::size_t kCalls = 12;
constexpr Duration kDeadline = 20s, kStep = 100ms, kCompile = 2s, kDetection = 100ms, kSlack = 1ms;

/// Six ranks with sizes of their own; they compile in call 0 and reuse that to the end.
std::string text_with(const std::string& faults, int seed = 0) {
  return fmt::format(
      R"({{"format": "lockstep.scenario/1", "world_size": {}, "generator": {{"seed": 1, "calls": [
         {{"frame": "step", "repeat": {},
           "values": {{"x": {{"tensor": [{{"uniform": [0, 9]}}, 4]}}, "n": {{"int": 3}}}}}}]}},
         "faults": {{"seed": {}, "deadline_s": 20, "list": [{}]}}}})",
      kRanks, kCalls, seed, faults);
}

Result<Scenario> read(const std::string& faults, int seed = 0) {
  return parse_scenario(text_with(faults, seed), "test");
}

FaultReport report_of(const std::string& faults) {
  const auto scenario = read(faults);
  EXPECT_TRUE(scenario.has_value()) << scenario.error().message;
  return fault_report(*scenario);
}

FaultReport::Alone alone(const std::string& fault) { return report_of(fault).alone.at(0); }

Code code_of(const FaultOutcome& fault) {
  return fault.detected ? fault.detected->code : Code::Internal;
}

void expect_near(Duration found, Duration wanted) {
  EXPECT_LE(found, wanted + kSlack) << found.count();
  EXPECT_GE(found, wanted - kSlack) << found.count();
}

TEST(FaultReader, WhatMakesNoSense_IsRefusedWithItsPath) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {R"({"fault": "burnt", "ranks": "1", "call": 1})", "faults.list[0].fault: \"burnt\" is not"},
      {R"({"ranks": "1", "call": 1})", "faults.list[0].fault: this key is missing"},
      {R"({"fault": "crashed", "ranks": "1", "call": 1}, {"fault": "stopped", "ranks": "0-1", "call": 2})",
       "faults.list[1]: an earlier fault stops or crashes a rank of this one"},
      {R"({"fault": "crashed", "call": 1})", "faults.list[0]: one of ranks, count says"},
      {R"({"fault": "crashed", "ranks": "1", "count": 2, "call": 1})", "one of ranks, count says"},
      {R"({"fault": "crashed", "ranks": "6", "call": 1})", "faults.list[0].ranks: "},
      {R"({"fault": "crashed", "count": 7, "call": 1})",
       "7 ranks to draw, where the faults before leave 6"},
      {R"({"fault": "crashed", "ranks": "1"})", "one of call, at_s says when"},
      {R"({"fault": "crashed", "ranks": "1", "call": 1, "at_s": 1})", "one of call, at_s says"},
      {R"({"fault": "crashed", "ranks": "1", "call": 12})",
       "faults.list[0].call: the scenario makes 12 calls"},
      {R"({"fault": "crashed", "ranks": "1", "call": [5, 3]})", "the least is above the greatest"},
      {R"({"fault": "crashed", "ranks": "1", "call": [5]})", "expected [least, greatest]"},
      {R"({"fault": "crashed", "ranks": "1", "at_s": -1})", "faults.list[0].at_s: -1 is out of"},
      {R"({"fault": "crashed", "ranks": "1", "call": 1, "for_s": 1})",
       "faults.list[0].for_s: unknown key"},
      {R"({"fault": "branch", "ranks": "1"})", "the key call says when"},
      {R"({"fault": "late", "ranks": "1", "at_s": 1, "delay_s": 1})", "at_s: unknown key"},
      {R"({"fault": "late", "ranks": "1"})", "faults.list[0].delay_s: this key is missing"},
      {R"({"fault": "compile_fails", "ranks": "1", "rejected": 1})", "expected true or false"},
  };
  for (const auto& [fault, wanted] : cases) {
    const auto scenario = read(fault);
    ASSERT_FALSE(scenario.has_value()) << fault;
    EXPECT_EQ(scenario.error().code, Code::BadInput);
    EXPECT_NE(scenario.error().message.find(wanted), std::string::npos) << scenario.error().message;
  }
}

TEST(FaultReader, JobLongerThanTheClock_IsRefused) {
  for (const int calls : {900, 9300}) {
    const auto scenario = parse_scenario(
        fmt::format(R"({{"format": "lockstep.scenario/1", "world_size": 2, "generator": {{"calls": [
            {{"frame": "step", "repeat": {}, "values": {{}}}}]}},
            "faults": {{"step_s": 1000000, "list": []}}}})",
                    calls),
        "test");
    EXPECT_EQ(scenario.has_value(), calls == 900);
    if (scenario) continue;
    EXPECT_NE(scenario.error().message.find("faults: 9300 calls with these times"),
              std::string::npos)
        << scenario.error().message;
  }
}

TEST(FaultReader, Draws_AreOfTheSeedAndFallOnNoRankTwice) {
  const std::string faults = R"({"fault": "crashed", "count": 2, "call": [3, 9]},
      {"fault": "stopped", "count": 3, "at_s": [0.5, 2.5], "for_s": 1})";
  std::vector<std::vector<Fault>> drawn;
  for (int seed = 0; seed < 20; ++seed) {
    const auto scenario = read(faults, seed);
    ASSERT_TRUE(scenario.has_value()) << scenario.error().message;
    EXPECT_EQ(*scenario, *read(faults, seed));
    const std::vector<Fault>& list = scenario->faults->list;
    EXPECT_EQ(list[0].ranks.size(), 2);
    EXPECT_EQ(list[1].ranks.size(), 3);
    EXPECT_EQ(list[0].ranks.minus(list[1].ranks), list[0].ranks);
    EXPECT_TRUE(list[0].call >= 3U && list[0].call <= 9U);
    EXPECT_TRUE(list[1].at >= 500ms && list[1].at <= 2500ms);
    drawn.push_back(list);
  }
  EXPECT_NE(drawn[0], drawn[1]);
  EXPECT_NE(drawn[1], drawn[2]);
}

/// The calls alone.
std::string calls_of(const Scenario& scenario, const std::vector<CallResult>& calls) {
  DryRunResult result;
  result.world_size = scenario.world_size;
  result.calls = calls;
  return result_json(result);
}

TEST(TimedRun, WithoutFaults_CallsComeToWhatADryRunSays) {
  for (std::uint64_t seed = 1; seed <= 600; ++seed) {
    const Scenario scenario = random_scenario(seed);
    const TimedRun run = timed_run(scenario, {}, {});
    ASSERT_EQ(calls_of(scenario, run.calls),
              calls_of(scenario, dry_run(scenario, Manner::EveryRank).calls))
        << "seed " << seed << "\n"
        << scenario_text(scenario);
    EXPECT_FALSE(run.verdict || run.hangs) << "seed " << seed;
  }
  for (int seed = 0; seed < 5; ++seed) {
    const auto scenario =
        parse_scenario(text_with(""), "test", {.world_size = 5 + 17 * seed, .seed = seed});
    ASSERT_TRUE(scenario.has_value());
    EXPECT_EQ(calls_of(*scenario, timed_run(*scenario, {}, {}).calls),
              calls_of(*scenario, dry_run(*scenario).calls));
  }
}

TEST(TimedRun, WithoutFaults_TakesTheTimesThatAreGiven) {
  const auto scenario = read("");
  const TimedRun run = timed_run(*scenario, *scenario->faults, {});
  expect_near(run.end, kCompile + kCalls * kStep);
  for (const Duration waited : run.waited) EXPECT_LT(waited, kSlack);
  EXPECT_TRUE(run.last.empty());
}

/// Two frames, of which one is called last, over a network of 1 ms.
std::string text_with_costs(const std::string& faults) {
  return R"({"format": "lockstep.scenario/1", "world_size": 4, "calls": [
      {"frame": "a", "inputs": [{"ranks": "0-3", "values": {"x": {"tensor": [4]}}}]},
      {"frame": "a", "inputs": [{"ranks": "0-3", "values": {"x": {"tensor": [5]}}}]},
      {"frame": "b", "inputs": [{"ranks": "0-3", "values": {"x": {"tensor": [5]}, "y": {"tensor": [5]}}}]}],
    "cost": {"network": {"alpha_us": 1000, "beta_gbps": 10}, "deadline_s": 7,
             "compile": {"constant_us": 1000000, "per_source_us": 100000, "per_symbol_us": 30000},
             "step": {"constant_us": 2000}, "frames": {"b": {"step": {"constant_us": 500000}}}},
    "faults": {)" +
         faults + R"("list": []}})";
}

TEST(TimedRun, TimesThatAreNotGiven_AreThoseOfTheCosts) {
  const auto scenario = parse_scenario(text_with_costs(""), "test");
  ASSERT_TRUE(scenario.has_value()) << scenario.error().message;
  EXPECT_EQ(scenario->faults->deadline, 7s);
  EXPECT_EQ(scenario->faults->latency, 1ms);
  const Duration compiles = 1100ms + 1130ms + 1200ms, steps = 2ms + 2ms + 500ms;
  const TimedRun run = timed_run(*scenario, *scenario->faults, {});
  EXPECT_GT(run.end, compiles + steps);
  EXPECT_LT(run.end, compiles + steps + 100ms) << "messages take the rest";
  const auto given =
      parse_scenario(text_with_costs(R"("deadline_s": 3, "step_s": 9, "compile_s": 5,)"), "test");
  EXPECT_EQ(given->faults->deadline, 3s);
  EXPECT_GT(timed_run(*given, *given->faults, {}).end, 3 * 14s);
}

TEST(Faults, ABranch_CompilesNoLongerThanTheJobWithoutIt) {
  std::string text = text_with_costs("");
  text.replace(text.find("\"list\": []"), 10,
               R"("list": [{"fault": "branch", "ranks": "1", "call": 2}])");
  const auto scenario = parse_scenario(text, "test");
  ASSERT_TRUE(scenario.has_value()) << scenario.error().message;
  const TimedRun without = timed_run(*scenario, *scenario->faults, {});
  const TimedRun with = timed_run(*scenario, *scenario->faults, scenario->faults->list);
  EXPECT_LT(with.end, without.end + 100ms)
      << "the flag that it branches on is no input of the user";
}

TEST(Faults, AJobThatEndsWithoutAny_IsSaid) {
  const auto scenario =
      parse_scenario(R"({"format": "lockstep.scenario/1", "world_size": 3, "calls": [
      {"frame": "a", "inputs": [{"ranks": "0-1", "values": {}}]},
      {"frame": "a", "inputs": [{"ranks": "0-2", "values": {}}]}],
    "faults": {"deadline_s": 5, "step_s": 6, "list": []}})",
                     "test");
  ASSERT_TRUE(scenario.has_value()) << scenario.error().message;
  const FaultReport report = fault_report(*scenario);
  ASSERT_TRUE(report.ends_alone.has_value());
  EXPECT_EQ(report.ends_alone->code, Code::Stuck);
  EXPECT_NE(fault_summary(report).find("without any the job ends after"), std::string::npos);
  EXPECT_NE(fault_json(report).find(R"("without_error": {"code":"STUCK")"), std::string::npos);
  EXPECT_FALSE(report_of("").ends_alone);
}

TEST(Faults, ACrashAtAnyMoment_IsToldSoonAndNamesTheRank) {
  std::vector<Duration> moments;
  for (Duration at = 0s; at < 3100ms; at += 37ms) moments.push_back(at);
  for (Duration at = 2100ms; at < 2100200us; at += 3us) moments.push_back(at);
  for (const Duration at : moments) {
    const auto [fault, job] = alone(
        fmt::format(R"({{"fault": "crashed", "ranks": "3", "at_s": {:.9f}}})", at.count() / 1e9));
    ASSERT_EQ(code_of(fault), Code::RankLost) << at.count();
    EXPECT_EQ(fault.named.text(), "3") << at.count();
    EXPECT_GE(fault.after, kDetection) << at.count();
    EXPECT_LE(fault.after, kDetection + (at <= kCompile ? kCompile : kStep) + kSlack) << at.count();
    EXPECT_TRUE(job.ends);
    EXPECT_EQ(job.exit_code, 5);
  }
}

TEST(Faults, AStopAtAnyMoment_IsToldAtTheDeadlineAndNamesTheRanks) {
  std::vector<Duration> moments;
  for (Duration at = 0s; at < 3100ms; at += 61ms) moments.push_back(at);
  for (Duration at = 2100ms; at < 2100200us; at += 3us) moments.push_back(at);
  RankSet stopped = RankSet::of({0});
  stopped.insert(RankSet::of({4}));
  for (const Duration at : moments) {
    const auto [fault, job] = alone(
        fmt::format(R"({{"fault": "stopped", "ranks": "0,4", "at_s": {:.9f}}})", at.count() / 1e9));
    ASSERT_EQ(code_of(fault), Code::Stuck) << at.count();
    // In a compile each holds a lease of its own, and out of a vote each comes at its own time: the
    // first that shows nothing for the deadline is told.
    const bool any = at <= kCompile || (at >= 2100ms && at <= 2101ms);
    const RankSet& named = fault.named;
    EXPECT_TRUE(any ? !named.empty() && named.minus(stopped).empty() : named == stopped)
        << at.count() << fault.detected->message;
    EXPECT_GE(fault.after, kDeadline - kSlack) << at.count();
    EXPECT_LE(fault.after, kDeadline + (at <= kCompile ? kCompile : kStep) + kSlack) << at.count();
    EXPECT_EQ(job.exit_code, 4);
  }
}

TEST(Faults, AStopShorterThanTheDeadline_IsWaitedFor) {
  for (Duration at = 0s; at < 3100ms; at += 37ms) {
    const auto [fault, job] = alone(fmt::format(
        R"({{"fault": "stopped", "ranks": "5", "at_s": {:.9f}, "for_s": 15}})", at.count() / 1e9));
    EXPECT_FALSE(fault.detected) << at.count();
    EXPECT_FALSE(job.ends);
    EXPECT_EQ(job.calls, kCalls);
    expect_near(job.longer, 15s);
    expect_near(job.wait_max, 15s);
    EXPECT_EQ(job.last.text(), "5") << at.count();
  }
}

TEST(Faults, ASlowRank_IsNoAlarmAndHoldsUpTheOthers) {
  const auto [fault, job] = alone(R"({"fault": "slow", "ranks": "2", "delay_s": 0.02})");
  EXPECT_TRUE(fault.struck);
  EXPECT_FALSE(fault.detected);
  expect_near(job.longer, kCalls * 20ms);
  expect_near(job.wait_median, kCalls * 20ms);
  EXPECT_EQ(job.last.text(), "2");
  const auto some =
      alone(R"({"fault": "slow", "ranks": "2", "delay_s": 1, "call": 4, "for_s": 3})");
  expect_near(some.job.longer, 3s);  // struck in the step after call 4, then every 1.1 s
  const auto timed = alone(R"({"fault": "slow", "ranks": "2", "delay_s": 1, "at_s": 2.35})");
  expect_near(timed.job.longer, (kCalls - 4) * 1s);  // the steps from 2.4 s on
  const auto later =
      alone(R"({"fault": "slow", "ranks": "2", "delay_s": 1, "call": 9, "for_s": 1})");
  expect_near(later.job.longer, 1s);
  const auto stuck = alone(R"({"fault": "slow", "ranks": "2", "delay_s": 21})");
  EXPECT_EQ(code_of(stuck.fault), Code::Stuck);
  EXPECT_EQ(stuck.fault.named.text(), "2");
}

TEST(Faults, ALateRank_IsWaitedForUpToTheDeadline) {
  const auto soon = alone(R"({"fault": "late", "ranks": "1", "call": 7, "delay_s": 19.9})");
  EXPECT_FALSE(soon.fault.detected);
  expect_near(soon.job.longer, 19900ms);
  const auto never = alone(R"({"fault": "late", "ranks": "1", "call": 7, "delay_s": 20.1})");
  EXPECT_EQ(code_of(never.fault), Code::Stuck);
  EXPECT_EQ(never.fault.named.text(), "1");
  expect_near(never.fault.after, kDeadline);
  EXPECT_EQ(never.job.calls, 7U);
}

TEST(Faults, ARankThatComesLateToTheStart_HasFiveDeadlines) {
  const auto soon = alone(R"({"fault": "late", "ranks": "1", "delay_s": 99})");
  EXPECT_FALSE(soon.fault.detected);
  expect_near(soon.job.longer, 99s);
  expect_near(soon.job.wait_median, 99s);
  const auto never = alone(R"({"fault": "late", "ranks": "1", "delay_s": 101})");
  EXPECT_EQ(code_of(never.fault), Code::Stuck);
  EXPECT_TRUE(never.fault.named.empty());
  EXPECT_EQ(never.fault.after, kStartDeadlines * kDeadline);
  EXPECT_EQ(never.job.exit_code, 4);
  EXPECT_EQ(never.job.calls, 0U);
}

TEST(Faults, ABranchOfOneRank_IsOneErrorAndTheNextCallRuns) {
  for (int call = 0; call < 12; call += 4) {
    const auto [fault, job] =
        alone(fmt::format(R"({{"fault": "branch", "ranks": "0,5", "call": {}}})", call));
    EXPECT_EQ(code_of(fault), Code::BranchDivergence);
    EXPECT_EQ(fault.named.text(), "0,5");
    EXPECT_LT(fault.after, kSlack);
    EXPECT_FALSE(job.ends);
    EXPECT_EQ(job.more_errors, 1);
    EXPECT_TRUE(call == 0 || job.more_compiles == 0);
    EXPECT_EQ(job.calls, kCalls);
  }
  EXPECT_FALSE(alone(R"({"fault": "branch", "ranks": "0-5", "call": 0})").fault.detected);
}

TEST(Faults, ACompilerThatFails_IsReplacedWhereOthersWork) {
  const auto one = alone(R"({"fault": "compile_fails", "ranks": "2"})");
  EXPECT_TRUE(one.fault.struck);
  EXPECT_FALSE(one.fault.detected);
  expect_near(one.job.longer, kCompile);
  const auto all = alone(R"({"fault": "compile_fails", "ranks": "0-5"})");
  EXPECT_EQ(code_of(all.fault), Code::Environment);
  EXPECT_EQ(all.fault.named.text(), "0-5");
  EXPECT_EQ(all.job.more_errors, 1);
  const auto text = alone(R"({"fault": "compile_fails", "ranks": "2", "rejected": true})");
  EXPECT_EQ(code_of(text.fault), Code::CompileError);
  EXPECT_EQ(text.fault.named.text(), "2");
  EXPECT_EQ(text.job.more_errors, 1);
  EXPECT_EQ(text.job.calls, kCalls);
  const auto idle = alone(R"({"fault": "compile_fails", "ranks": "2", "call": 3})");
  EXPECT_FALSE(idle.fault.struck) << "nothing is compiled any more";
}

TEST(Faults, ARankThatForgotItsEntries_IsNamedAtEveryCall) {
  const auto [fault, job] = alone(R"({"fault": "cache_lost", "ranks": "4", "call": 6})");
  EXPECT_EQ(code_of(fault), Code::GraphDivergence);
  EXPECT_EQ(fault.named.text(), "4");
  EXPECT_EQ(job.more_errors, 6);
  EXPECT_FALSE(job.ends);
}

TEST(Faults, AfterOneThatEndsTheJob_NothingElseHappens) {
  const FaultReport report = report_of(R"({"fault": "branch", "ranks": "1", "call": 4},
      {"fault": "crashed", "ranks": "2", "call": 8}, {"fault": "stopped", "ranks": "3", "call": 9},
      {"fault": "crashed", "ranks": "4", "at_s": 3.1})");
  EXPECT_EQ(code_of(report.together[0]), Code::BranchDivergence);
  EXPECT_EQ(code_of(report.together[1]), Code::RankLost);
  EXPECT_EQ(report.together[1].named.text(), "2");
  EXPECT_FALSE(report.together[2].struck);
  EXPECT_FALSE(report.together[3].struck);
  EXPECT_EQ(report.job.calls, 8U);
  EXPECT_EQ(report.job.exit_code, 5);
  EXPECT_EQ(code_of(report.alone[2].fault), Code::Stuck);
}

TEST(Faults, OneThatComesAfterTheEnd_NeverStrikes) {
  for (const char* kind : {"crashed", "stopped"}) {
    const auto [fault, job] =
        alone(fmt::format(R"({{"fault": "{}", "ranks": "3", "at_s": 3.3}})", kind));
    EXPECT_FALSE(fault.struck);
    EXPECT_FALSE(job.ends);
    EXPECT_EQ(job.longer, 0s);
  }
}

TEST(Faults, AllRanksGone_NobodyIsLeftToTell) {
  const auto crashed = alone(R"({"fault": "crashed", "ranks": "0-5", "call": 8})");
  EXPECT_FALSE(crashed.fault.detected);
  EXPECT_TRUE(crashed.job.ends);
  EXPECT_FALSE(crashed.job.exit_code);
  const auto last = alone(R"({"fault": "stopped", "ranks": "3", "at_s": 3.15})");
  EXPECT_EQ(code_of(last.fault), Code::Stuck) << "the vote at the end of the job waits, too";
}

TEST(Faults, TheSameScenarioTwice_GivesTheSameBytes) {
  const auto scenario = read(R"({"fault": "crashed", "count": 2, "call": [3, 9]},
      {"fault": "slow", "count": 1, "delay_s": 0.3}, {"fault": "branch", "ranks": "1", "call": 2})",
                             5);
  ASSERT_TRUE(scenario.has_value());
  const std::string first = result_json(dry_run(*scenario));
  EXPECT_EQ(first, result_json(dry_run(*scenario)));
  EXPECT_NE(first.find("\"together_job\""), std::string::npos);
  Scenario quiet = *scenario;
  quiet.faults.reset();
  const std::string without = result_json(dry_run(quiet));
  EXPECT_EQ(first.substr(0, without.size() - 2), without.substr(0, without.size() - 2))
      << "what comes before is as without faults";
}

/// A fault of any kind at any moment of a job of so many calls.
Fault random_fault(std::mt19937_64& random, const Scenario& scenario) {
  using Kind = Fault::Kind;
  Fault fault;
  fault.kind = static_cast<Kind>(random() % 7);
  do
    for (std::int32_t r = 0; r < scenario.world_size; ++r)
      if (random() % 3 == 0) fault.ranks.insert(RankSet::of(Rank{r}));
  while (fault.ranks.empty());
  const bool timed = fault.kind <= Kind::Crashed && random() % 2 == 0;
  if (timed || scenario.count() == 0) fault.at = Instant(random() % 4'000'000'000);
  if (!fault.at) fault.call = random() % scenario.count();
  if (fault.kind <= Kind::Stopped && random() % 2 == 0) fault.lasts = 1ms * (1 + random() % 90'000);
  fault.delay = 1ms * (1 + random() % 90'000);
  fault.rejected = random() % 2 == 0;
  return fault;
}

TEST(Faults, RandomOnesInRandomJobs_ComeToAnEndThatIsTheSameTwice) {
  int ended = 0, told = 0, went_on = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    std::mt19937_64 random(seed);
    Scenario scenario = random_scenario(seed);
    if (seed % 4 == 0) scenario = *read("", static_cast<int>(seed));
    FaultPlan& plan = scenario.faults.emplace();
    const std::size_t count = 1 + random() % 3;
    for (std::size_t i = 0; i < count; ++i) plan.list.push_back(random_fault(random, scenario));
    const FaultReport report = fault_report(scenario);
    ASSERT_EQ(fault_json(report), fault_json(fault_report(scenario))) << "seed " << seed;
    for (std::size_t i = 0; i < count; ++i) {
      const auto& [fault, job] = report.alone[i];
      const Fault& what = plan.list[i];
      EXPECT_TRUE(job.ends || job.calls == scenario.count()) << "seed " << seed;
      const bool crashed = what.kind == Fault::Kind::Crashed && fault.struck;
      EXPECT_TRUE(job.ends || !crashed) << "seed " << seed << ": " << fault_text(what);
      EXPECT_TRUE(!fault.detected || (fault.struck && fault.after >= 0s)) << "seed " << seed;
      ended += job.ends;
      told += fault.detected.has_value();
      went_on += !job.ends;
    }
  }
  EXPECT_GT(ended, 100);
  EXPECT_GT(told, 150);
  EXPECT_GT(went_on, 100);
}

TEST(Faults, MoreRanksThanFitIntoMemory_AreRefusedWithTheEstimate) {
  Scenario scenario = *read("");
  EXPECT_FALSE(too_large(scenario, {.counterfactual = false}));
  scenario.world_size = kMaxWorldSize;
  const auto refused = too_large(scenario, {.counterfactual = false});
  ASSERT_TRUE(refused);
  EXPECT_NE(refused->message.find("16777216 ranks with faults"), std::string::npos);
}

TEST(NamedRanks, OfEachSortOfError) {
  const RankSet culprits = RankSet::range({6}, {7});
  const auto named = [&](const Status& error) { return named_ranks(error, culprits).text(); };
  EXPECT_EQ(named({Code::Stuck, "Ranks did not come to operation 3.", {}, {}}), "6-7");
  EXPECT_EQ(named({Code::RankLost, "Rank 3 ended without finishing the job.", {}, {}}), "6-7");
  const RankSet few = RankSet::of({2}), many = RankSet::range({3}, {7});
  EXPECT_EQ(named({Code::BranchDivergence, {}, {}, {{few, "a"}, {many, "b"}}}), "2");
  EXPECT_EQ(named({Code::CompileError, {}, {}, {{few, "compiled"}, {many, "x"}}}), "3-7");
}

}  // namespace
}  // namespace lockstep::worker::simulator::fault_test
