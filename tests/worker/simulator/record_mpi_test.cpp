// A job of real processes records itself, and the replay in one of them comes to the same.
#include <filesystem>

#include "random_scenario.h"
#include <gtest/gtest.h>
#include <unistd.h>

#include <lockstep/collectives/mpi.h>
#include <lockstep/worker/simulator/answers/replay.h>
#include <lockstep/worker/simulator/cluster/dry_run.h>

namespace lockstep::worker::simulator::record_mpi_test {
namespace {

namespace fs = std::filesystem;

/// A program that branches on the first size, and whose compile fails on one rank at some calls.
class Steps final : public CallSteps {
 public:
  Steps(std::size_t call, bool fails) : call_(call), fails_(fails) {}
  Result<TraceReport> trace(const Decision& decision) override {
    TraceReport report;
    const auto symbols = decision.trace_symbols();
    shapes::FingerprintBuilder graph;
    graph.add(decision.digest());
    if (!symbols.empty() && !symbols[0].unbacked) {
      const bool small = decision.symbols[0].hint < 4;
      const shapes::Expr size = shapes::Expr::symbol(symbols[0]);
      report.guards.push_back(
          {small ? shapes::less(size, 4) : shapes::greater_equal(size, 4), {"step.cpp", 7}});
      graph.add(std::int64_t{small});
    }
    report.graph = graph.finish();
    return report;
  }
  std::string explain(std::size_t node) override { return "node " + std::to_string(node); }
  std::optional<Status> compile() override {
    if (!fails_ || call_ % 5 != 4) return std::nullopt;
    return Status{Code::CompileError, "the compiler is tired", {}, {}};
  }

 private:
  std::size_t call_;
  bool fails_;
};

/// All ranks are children of one launcher, so they agree on the name.
fs::path shared_directory(std::uint64_t seed) {
  return fs::path(testing::TempDir()) /
         ("lockstep-record-" + std::to_string(getppid()) + "-" + std::to_string(seed));
}

TEST(RecordMpi, RecordedJob_IsReplayedByteForByte) {
  auto group = std::move(collectives::mpi_communicator(nullptr, {}).value());
  const bool last = group->rank().value == group->size() - 1;
  int jobs = 0;
  for (std::uint64_t seed = 1; jobs < 12; ++seed) {
    const Scenario scenario = random_scenario(seed);
    if (scenario.world_size != group->size() || scenario.calls.size() < 4) continue;
    ++jobs;
    const fs::path directory = shared_directory(seed);
    auto recorder =
        Recorder::open(directory, {scenario.world_size, group->rank(), scenario.config, "test"},
                       [](const Status& cut) { ADD_FAILURE() << cut.text(); });
    ASSERT_TRUE(recorder.has_value()) << recorder.error().message;
    CallDriver driver(*group, scenario.config);
    driver.observe(**recorder);
    std::map<std::string, CodeCache> frames;
    std::vector<std::string> outcomes;
    for (std::size_t c = 0; c < scenario.calls.size(); ++c) {
      if (scenario.calls[c].present != RankSet::all(group->size())) continue;
      for (const ScenarioGroup& inputs : scenario.calls[c].groups) {
        if (!inputs.ranks.contains(group->rank())) continue;
        RoundKey key;
        key.group = "world";
        key.frame = inputs.frame;
        key.round = key.call = c;
        Steps steps(c, last);
        CodeCache& frame = frames[inputs.frame];
        frame.name = inputs.frame;
        outcomes.push_back(outcome_text(driver.call(key, frame, inputs.observation(), {}, steps)));
      }
    }
    RoundKey end;
    end.round = end.call = scenario.calls.size();
    ASSERT_TRUE(driver.any_rank(end, false).has_value());
    if (group->rank() == Rank{0}) {
      const auto ranks = read_record(directory);
      ASSERT_TRUE(ranks.has_value()) << ranks.error().message;
      const auto again = replay(*ranks);
      ASSERT_TRUE(again.has_value()) << again.error().message;
      ASSERT_FALSE(again->difference.has_value()) << again->difference->text();
      ASSERT_EQ(again->result.calls.size(), outcomes.size());
      for (std::size_t i = 0; i < outcomes.size(); ++i)
        EXPECT_EQ(outcome_text(again->result.calls[i].outcome), outcomes[i]) << "seed " << seed;
      fs::remove_all(directory);
    }
  }
}

/// The program is the decision, as in a dry run.
class DecisionAlone final : public CallSteps {
 public:
  Result<TraceReport> trace(const Decision& decision) override {
    TraceReport report;
    report.graph = decision.digest();
    return report;
  }
  std::string explain(std::size_t) override { return {}; }
  std::optional<Status> compile() override { return std::nullopt; }
};

TEST(DryRunMpi, RandomScenarios_ComeToWhatTheDryRunSays) {
  auto group = std::move(collectives::mpi_communicator(nullptr, {}).value());
  std::map<CallOutcome::Kind, int> outcomes;
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    Scenario scenario = random_scenario(seed);
    if (scenario.world_size != group->size()) continue;
    std::erase_if(scenario.calls, [&](const ScenarioCall& call) {
      return call.present != RankSet::all(group->size());
    });
    const DryRunResult said = dry_run(scenario, {.counterfactual = false});
    CallDriver driver(*group, scenario.config);
    std::map<std::string, CodeCache> frames;
    for (std::size_t c = 0; c < scenario.calls.size(); ++c)
      for (const ScenarioGroup& inputs : scenario.calls[c].groups) {
        if (!inputs.ranks.contains(group->rank())) continue;
        RoundKey key;
        key.group = "all";
        key.frame = inputs.frame;
        key.round = key.call = c;
        CodeCache& frame = frames[inputs.frame];
        frame.name = inputs.frame;
        DecisionAlone steps;
        const CallOutcome outcome = driver.call(key, frame, inputs.observation(), {}, steps);
        const CallResult& wanted = said.calls[c];
        ++outcomes[outcome.kind];
        ASSERT_EQ(outcome_text(outcome), outcome_text(wanted.outcome))
            << "seed " << seed << ", call " << c << "\n"
            << scenario_text(scenario);
        if (!wanted.reported) continue;
        const Decision& made = frame.entries[static_cast<std::size_t>(outcome.entry)].reported;
        EXPECT_EQ(made.digest(), wanted.reported->digest()) << "seed " << seed << ", call " << c;
      }
  }
  for (const CallOutcome::Kind kind :
       {CallOutcome::Kind::Compiled, CallOutcome::Kind::Reused, CallOutcome::Kind::Error})
    EXPECT_GT(outcomes[kind], group->size() == 1 && kind == CallOutcome::Kind::Error ? -1 : 100);
}

}  // namespace
}  // namespace lockstep::worker::simulator::record_mpi_test
