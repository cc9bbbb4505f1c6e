// A recorded job at another number of ranks: what is drawn, and what is said of it.
#include <set>

#include "random_scenario.h"
#include "record_directory.h"
#include "recorded_job.h"
#include <gtest/gtest.h>

#include <lockstep/collectives/simulated/fake.h>
#include <lockstep/worker/agree/agreement/agreement.h>
#include <lockstep/worker/simulator/answers/mark_advice.h>
#include <lockstep/worker/simulator/answers/replay.h>
#include <lockstep/worker/simulator/input/call_inputs.h>
#include <lockstep/worker/simulator/input/recorded_inputs.h>

namespace lockstep::worker::simulator::drawn_test {
namespace {

/// A record of a scenario, read and replayed.
struct Recorded {
  Directory directory;
  RecordedInputs inputs;
  std::vector<RankRecord> ranks;
  Replay replay;

  explicit Recorded(const std::string& scenario) : Recorded(*parse_scenario(scenario, "drawn")) {}
  explicit Recorded(const Scenario& scenario) {
    (void)record_job(scenario, directory.path());
    read();
  }
  void read() {
    ranks = *read_record(directory.path(),
                         [&](const auto& rank, const auto& call) { inputs.add(rank, call); });
    replay = *simulator::replay(ranks, false);
    EXPECT_FALSE(replay.difference.has_value());
  }
  [[nodiscard]] Scenario drawn(int world_size, std::uint64_t seed = 0, bool traces = false) const {
    Scenario out = inputs.draw(ranks, world_size, seed)->scenario;
    if (traces) out.traces = std::make_shared<const KnownTraces>(replay.traces);
    return out;
  }
};

/// "x" has other sizes on each rank in calls 1 to 3, and the same in call 0; "k" only changes over
/// calls; the last two calls are made with another bool.
constexpr const char* kJob = R"({"format": "lockstep.scenario/1", "world_size": 2, "calls": [
    {"frame": "f", "inputs": [
       {"ranks": "0-1", "values": {"x": {"tensor": [4, 8]}, "k": {"tensor": [2]}, "train": {"bool": true}}}]},
    {"frame": "f", "inputs": [
       {"ranks": "0", "values": {"x": {"tensor": [6, 8]}, "k": {"tensor": [2]}, "train": {"bool": true}}},
       {"ranks": "1", "values": {"x": {"tensor": [8, 8]}, "k": {"tensor": [2]}, "train": {"bool": true}}}]},
    {"frame": "f", "inputs": [
       {"ranks": "0", "values": {"x": {"tensor": [10, 8]}, "k": {"tensor": [2]}, "train": {"bool": true}}},
       {"ranks": "1", "values": {"x": {"tensor": [12, 8]}, "k": {"tensor": [2]}, "train": {"bool": true}}}]},
    {"frame": "f", "inputs": [
       {"ranks": "0", "values": {"x": {"tensor": [14, 8]}, "k": {"tensor": [9]}, "train": {"bool": true}}},
       {"ranks": "1", "values": {"x": {"tensor": [16, 8]}, "k": {"tensor": [9]}, "train": {"bool": true}}}]},
    {"frame": "f", "inputs": [
       {"ranks": "0", "values": {"x": {"tensor": [18, 8]}, "k": {"tensor": [9]}, "train": {"bool": false}}},
       {"ranks": "1", "values": {"x": {"tensor": [20, 8]}, "k": {"tensor": [9]}, "train": {"bool": false}}}]},
    {"frame": "f", "inputs": [
       {"ranks": "0", "values": {"x": {"tensor": [20, 8]}, "k": {"tensor": [9]}, "train": {"bool": true}}},
       {"ranks": "1", "values": {"x": {"tensor": [20, 8]}, "k": {"tensor": [9]}, "train": {"bool": false}}}]}]})";

/// The sizes of x that ranks see in a call, with what else they see: k, and the bool.
std::set<std::int64_t> sizes_in(const Scenario& scenario, std::size_t call, std::int64_t k,
                                std::int64_t train) {
  std::set<std::int64_t> out;
  std::int64_t ranks = 0;
  visit_inputs(scenario, call,
               [&](const std::string& frame, const RankSet& who, const Observation& seen) {
                 EXPECT_EQ(frame, "f");
                 EXPECT_EQ(seen.values[0], k);
                 EXPECT_EQ(seen.values[1], train);
                 out.insert(seen.values[2]);
                 ranks += who.size();
               });
  EXPECT_EQ(ranks, scenario.world_size);
  return out;
}

TEST(Drawn, Inputs_AreRecordedOnes_AndWhatRanksHadAlikeStaysSo) {
  const Recorded job(kJob);
  const Scenario drawn = job.drawn(200);
  using Sizes = std::set<std::int64_t>;
  EXPECT_EQ(drawn.count(), 6U);
  EXPECT_EQ(sizes_in(drawn, 0, 2, 1), Sizes({4}));  // alike in that call
  EXPECT_EQ(sizes_in(drawn, 1, 2, 1), Sizes({4, 6, 8, 10, 12}));
  EXPECT_EQ(sizes_in(drawn, 2, 2, 1), Sizes({4, 6, 8, 10, 12}));
  EXPECT_EQ(sizes_in(drawn, 3, 9, 1), Sizes({14, 16, 20}));  // k is 9 on all ranks
  EXPECT_EQ(sizes_in(drawn, 4, 9, 0), Sizes({18, 20}));      // the bool is false on all
}

TEST(Drawn, CallWhoseBoolsDiffered_IsMadeAsRecorded) {
  const Recorded job(kJob);
  for (const int ranks : {1, 3, 8}) {
    const DryRunResult result = dry_run(job.drawn(ranks));
    ASSERT_EQ(result.calls.size(), 6U);
    for (std::size_t c = 0; c < 5; ++c)
      EXPECT_FALSE(result.calls[c].outcome.error.has_value()) << ranks << " ranks, call " << c;
    const auto& error = result.calls[5].outcome.error;
    EXPECT_EQ(error.has_value(), ranks > 1);
    if (!error) continue;
    EXPECT_EQ(error->code, Code::ConstantMismatch);
    EXPECT_EQ(error->groups.at(0).ranks, RankSet::range(Rank{0}, Rank{(ranks + 1) / 2 - 1}));
  }
}

TEST(Drawn, OneRecordedRank_TellsNothingOfWhatRanksHaveAlike) {
  Scenario alone = *parse_scenario(kJob, "drawn");
  alone.world_size = 1;
  for (ScenarioCall& call : alone.calls) {
    call.groups.resize(1);
    call.groups[0].ranks = call.present = RankSet::all(1);
  }
  const Recorded job(alone);
  std::set<std::int64_t> sizes;
  visit_inputs(job.drawn(100), 0, [&](const auto&, const RankSet&, const Observation& seen) {
    EXPECT_EQ(seen.values[1], 1);  // the bool is the call's
    sizes.insert(seen.values[2]);
  });
  EXPECT_EQ(sizes, (std::set<std::int64_t>{4, 6, 10, 14, 20}));
}

/// Draws are a function of seed, call and rank: the one thread that holds all ranks, and the one
/// that moves their messages one by one, come to the bytes of the threads that draw.
TEST(Drawn, EveryManner_GivesTheSameBytes) {
  std::size_t guarded = 0, compiled = 0;
  for (std::uint64_t number = 0; number < 150; ++number) {
    Scenario plan = random_scenario(number);
    if (plan.config.consistency == Consistency::SharedSizes) continue;
    const Recorded job(plan);
    if (job.replay.result.calls.empty()) continue;
    for (const int ranks : {1, 5, 23}) {
      const Scenario drawn = job.drawn(ranks, number, number % 3 != 0);
      const DryRunResult result = dry_run(drawn, Manner::Drawn);
      const std::string bytes = result_json(result);
      EXPECT_EQ(bytes, result_json(dry_run(drawn, Manner::Drawn)));
      EXPECT_EQ(bytes, result_json(dry_run(expanded(drawn), Manner::EveryRank)))
          << number << ", " << ranks << " ranks";
      EXPECT_EQ(bytes, result_json(dry_run(expanded(drawn), Manner::Folded)))
          << number << ", " << ranks << " ranks";
      for (const CallResult& call : result.calls) {
        compiled += call.reported ? 1 : 0;
        guarded += call.outcome.error && call.outcome.error->code == Code::BranchDivergence ? 1 : 0;
      }
    }
  }
  EXPECT_GT(compiled, 200U);
  EXPECT_GT(guarded, 10U);
}

TEST(Drawn, Seeds_DrawApart_AndARankKeepsItsInputsInALargerWorld) {
  const Recorded job(kJob);
  const auto of = [&](int ranks, std::uint64_t seed) {
    const Scenario drawn = job.drawn(ranks, seed);
    const RankInputs inputs = drawn.generator.inputs(1, ranks);
    std::vector<std::int64_t> out;
    Observation seen = inputs.like();
    for (std::int32_t r = 0; r < 40; ++r) {
      inputs.fill(r, seen);
      out.push_back(seen.values[2]);
    }
    return out;
  };
  EXPECT_EQ(of(40, 1), of(4000, 1));
  EXPECT_NE(of(40, 1), of(40, 2));
  std::vector<std::int64_t> first = of(40, 7);
  first.resize(8);
  EXPECT_EQ(first, (std::vector<std::int64_t>{6, 4, 4, 12, 4, 12, 10, 8}));
}

/// The recorded job branches on whether a size is even (recorded_job.cpp).
TEST(Drawn, InputThatBreaksARecordedCondition_IsABranchDivergence) {
  const Recorded job(R"({"format": "lockstep.scenario/1", "world_size": 2, "calls": [
    {"frame": "f", "inputs": [{"ranks": "0", "values": {"x": {"tensor": [6]}}},
                              {"ranks": "1", "values": {"x": {"tensor": [8]}}}]},
    {"frame": "f", "inputs": [{"ranks": "0", "values": {"x": {"tensor": [7]}}},
                              {"ranks": "1", "values": {"x": {"tensor": [9]}}}]}]})");
  EXPECT_EQ(totals(job.replay.result).compiles, 2U);
  const DryRunResult result = dry_run(job.drawn(64, 0, true));
  ASSERT_TRUE(result.calls[0].outcome.error.has_value());
  EXPECT_EQ(result.calls[0].outcome.error->code, Code::BranchDivergence);
  EXPECT_NE(result.calls[0].outcome.error->message.find("step.cpp:41"), std::string::npos);
  EXPECT_EQ(totals(dry_run(job.drawn(64))).errors, 0U);  // conditions are not known

  DrawnFrom from;
  const Scenario known = job.drawn(1, 0, true);
  count_conditions(known, dry_run(known), from);
  EXPECT_EQ(from.conditions_known + from.conditions_not_known, totals(dry_run(known)).compiles);
}

TEST(Drawn, CallsOfGroups_AndOfRanksThatCompileApart_AreRefused) {
  Scenario apart = *parse_scenario(kJob, "drawn");
  apart.config.consistency = Consistency::SharedSizes;
  const Recorded job(apart);
  const auto drawn = job.inputs.draw(job.ranks, 8, 0);
  ASSERT_TRUE(drawn.has_error());
  EXPECT_NE(drawn.error().message.find("share sizes only"), std::string::npos);
}

TEST(MarkAdvice, MarksApplied_CompileLess) {
  const Recorded job(kJob);
  for (const int ranks : {2, 64}) {
    const Scenario drawn = job.drawn(ranks);
    const DryRunResult result = dry_run(drawn);
    const MarkAdvice advice = mark_advice(drawn, result, job.ranks);
    ASSERT_EQ(advice.dims.size(), 2U);
    EXPECT_EQ(advice.compiles, totals(result).compiles);
    ASSERT_TRUE(advice.compiles_if_marked.has_value());
    EXPECT_LT(*advice.compiles_if_marked, advice.compiles);
    EXPECT_EQ(*advice.compiles_if_marked, totals(dry_run(with_marks(drawn, advice.dims))).compiles);
    EXPECT_EQ(*advice.compiles_if_marked, 2U);  // one for each value of the bool
  }
}

TEST(MarkAdvice, SizeOfZeroThatComesLater_IsMarkedUnbacked) {
  const Recorded job(R"({"format": "lockstep.scenario/1", "world_size": 2, "calls": [
    {"frame": "f", "inputs": [{"ranks": "0", "values": {"x": {"tensor": [6, 4]}}},
                              {"ranks": "1", "values": {"x": {"tensor": [8, 4]}}}]},
    {"frame": "f", "inputs": [{"ranks": "0", "values": {"x": {"tensor": [0, 4]}}},
                              {"ranks": "1", "values": {"x": {"tensor": [2, 4]}}}]}]})");
  const Scenario inputs = scenario_of(job.ranks);
  const DryRunResult result = dry_run(inputs);
  EXPECT_EQ(totals(result).compiles, 2U);
  const auto dims = dims_to_mark(inputs, result);
  ASSERT_EQ(dims.size(), 1U);
  EXPECT_EQ(dims[0].mark, Mark::Unbacked);
  EXPECT_EQ(torch_line(dims[0]),
            "torch._dynamo.decorators.mark_unbacked(x, 0)  # f: 0 to 8, 2 compiles");
  EXPECT_EQ(totals(dry_run(with_marks(inputs, dims))).compiles, 1U);
}

TEST(MarkAdvice, Lines_AreThoseToPaste) {
  const MarkedDim dim{.frame = "step",
                      .source = "batch.tokens",
                      .dim = 0,
                      .least = 3,
                      .greatest = 97,
                      .compiles = 2};
  EXPECT_EQ(torch_line(dim),
            "torch._dynamo.mark_dynamic(batch.tokens, 0)  # step: 3 to 97, 2 compiles");
  const MarkedDim element{.frame = "step",
                          .source = "x[0]",
                          .dim = 1,
                          .mark = Mark::Unbacked,
                          .least = 0,
                          .greatest = 0,
                          .compiles = 1};
  EXPECT_EQ(torch_line(element),
            "torch._dynamo.decorators.mark_unbacked(x[0], 1)  # step: 0, 1 compile");
  const MarkAdvice torch{.dims = {dim}, .torch = true, .compiles = 2, .compiles_if_marked = 1};
  EXPECT_EQ(
      advice_summary(torch),
      "to mark      torch._dynamo.mark_dynamic(batch.tokens, 0)  # step: 3 to 97, 2 compiles\n"
      "             marked so, the job has 1 compile in place of 2\n");
  const MarkAdvice other{.dims = {dim}, .torch = false, .compiles = 2, .compiles_if_marked = {}};
  EXPECT_EQ(advice_summary(other),
            "to mark      mark batch.tokens.size(0) dynamic  # step: 3 to 97, 2 compiles\n");
  EXPECT_EQ(
      advice_json(torch),
      R"({"marks":[{"frame":"step","source":"batch.tokens","dim":0,"mark":"dynamic","least":3,)"
      R"("greatest":97,"compiles":2,"line":)"
      R"("torch._dynamo.mark_dynamic(batch.tokens, 0)  # step: 3 to 97, 2 compiles"}],)"
      R"("compiles":2,"compiles_if_marked":1})");
}

/// A program that calls the library for its agreements, of which two have one name and two have
/// configurations of their own.
TEST(RecordedAgreements, OfOneName_AreToldApart_EachWithItsConfiguration) {
  Recorded job(*parse_scenario(R"({"format": "lockstep.scenario/1", "world_size": 1, "calls": []})",
                               "nothing"));
  std::filesystem::remove(job.directory.file(0));
  {
    auto recorder = Recorder::open(job.directory.path(), {1, Rank{0}, DecisionConfig{}, "test"});
    ASSERT_TRUE(recorder.has_value());
    const auto all = *collectives::fake_communicator(Rank{0}, 1);
    GroupRounds rounds(*all);
    rounds.driver().observe(**recorder);
    std::vector<std::unique_ptr<Agreement>> agreements;
    for (const int limit : {2, 1, 8}) {
      const DecisionConfig config{.recompile_limit = limit, .settle = false};
      const int number = static_cast<int>(agreements.size()) + 1;
      agreements.push_back(std::make_unique<Agreement>(rounds, "compile f", config, number));
      (*recorder)->agreement(number, "compile f", config);
    }
    for (std::int64_t call = 0; call < 3; ++call)
      for (const auto& agreement : agreements)
        (void)agreement->agree("f", ObservationBuilder().tensor("x", {5 + call, call}).build(),
                               [](int, const Decision&) { return Result<Built>(Built{}); });
  }
  job.read();
  const auto& calls = job.replay.result.calls;
  ASSERT_EQ(calls.size(), 9U);
  EXPECT_EQ(calls[0].frame, "f");
  EXPECT_EQ(calls[1].frame, "f (2)");
  EXPECT_EQ(calls[2].frame, "f (3)");
  EXPECT_EQ(calls[4].outcome.kind, CallOutcome::Kind::Fallback);  // its limit is 1
  EXPECT_EQ(calls[5].outcome.kind, CallOutcome::Kind::Compiled);
  const Scenario inputs = scenario_of(job.ranks);
  const DryRunResult again = dry_run(inputs);
  for (std::size_t c = 0; c < calls.size(); ++c)
    EXPECT_EQ(outcome_text(again.calls[c].outcome), outcome_text(calls[c].outcome));
  EXPECT_TRUE(mark_advice(inputs, job.replay.result, job.ranks).torch);

  const std::string text = contents(job.directory.file(0));
  const std::string other =
      std::string(text).replace(text.find("\"agreement\":2"), 13, "\"agreement\":9");
  std::ofstream(job.directory.file(0)) << other;
  const auto refused = read_record(job.directory.path());
  ASSERT_TRUE(refused.has_error());
  EXPECT_NE(refused.error().message.find("no agreement has this number"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::worker::simulator::drawn_test
