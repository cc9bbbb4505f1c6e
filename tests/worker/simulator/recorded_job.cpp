#include "recorded_job.h"

#include <memory>

#include <gtest/gtest.h>

#include <lockstep/worker/agree/agreement/record.h>
#include <lockstep/worker/simulator/cluster/dry_run.h>
#include <lockstep/worker/simulator/cluster/rank_executor.h>

namespace lockstep::worker::simulator {
namespace {

/// Branches on whether the first symbol is even; asks for unbacked data where a symbol is 3. Where
/// the ranks have one graph, an even number of symbols means that the last is needed alike.
TraceReport trace(const Decision& decision, bool one_graph) {
  TraceReport report;
  shapes::FingerprintBuilder graph;
  graph.add(decision.digest());
  const auto symbols = decision.trace_symbols();
  if (!symbols.empty() && !symbols[0].unbacked) {
    const std::int64_t odd = decision.symbols[0].hint & 1;
    graph.add(odd);
    report.guards.push_back(
        {shapes::equal(mod(shapes::Expr::symbol(symbols[0]), 2), odd), {"step.cpp", 41}});
    if (decision.symbols[0].hint == 3)
      report.failure = Status{Code::TraceError, "three is \xff too many", {}, {}};
  }
  if (one_graph && symbols.size() % 2 == 0 && !symbols.empty() && !symbols.back().unbacked)
    report.uniform = {{shapes::Expr::symbol(symbols.back()), "", "all_reduce", {"step.cpp", 43}}};
  report.graph = graph.finish();
  report.prefixes = {report.graph};
  report.collectives = report.graph;
  return report;
}

struct Process {
  std::map<std::string, CodeCache> frames;
  std::unique_ptr<Recorder> recorder;
};

/// True: at a round, which is written down.
bool advance(CallMachine& machine, Recorder& recorder, bool one_graph) {
  for (;;) {
    const Action& action = machine.next();
    recorder.acts(action);
    if (const auto* traced = std::get_if<action::Trace>(&action)) {
      TraceReport report = trace(*traced->decision, one_graph);
      recorder.traced(report);
      machine.traced(std::move(report));
    } else if (const auto* explain = std::get_if<action::Explain>(&action)) {
      const std::string text = "node " + std::to_string(explain->node);
      recorder.explained(text);
      machine.explained(text);
    } else if (std::holds_alternative<action::Compile>(action)) {
      recorder.compiled(std::nullopt);
      machine.compiled(std::nullopt);
    } else if (const auto* finish = std::get_if<action::Finish>(&action)) {
      recorder.ended(machine, finish->outcome, {});
      return false;
    } else {
      return true;
    }
  }
}

}  // namespace

std::vector<std::string> record_job(const Scenario& scenario, const std::string& directory,
                                    const JobFaults& faults) {
  const auto size = static_cast<std::size_t>(scenario.world_size);
  std::vector<Process> ranks(size);
  std::vector<Unit> units;
  for (std::size_t r = 0; r < size; ++r) {
    const Rank rank{static_cast<std::int32_t>(r)};
    auto recorder = Recorder::open(directory, {scenario.world_size, rank, scenario.config, "test"});
    EXPECT_TRUE(recorder.has_value()) << recorder.error().message;
    ranks[r].recorder = *std::move(recorder);
    units.push_back({rank.value, rank.value});
  }
  FoldedRounds rounds(units, scenario.world_size);
  const bool one_graph = scenario.config.consistency == Consistency::SameGraph;
  std::vector<std::string> outcomes;
  bool gone = false;
  for (std::size_t c = 0; c < scenario.calls.size() && !gone; ++c) {
    const ScenarioCall& call = scenario.calls[c];
    if (call.present != RankSet::all(scenario.world_size)) continue;
    std::vector<std::unique_ptr<CallMachine>> machines(size);
    gone = faults.lost_rank >= 0 && c >= faults.lost_call;
    for (const ScenarioGroup& group : call.groups)
      for (std::size_t r = 0; r < size; ++r) {
        const Rank rank{static_cast<std::int32_t>(r)};
        if (!group.ranks.contains(rank)) continue;
        if (gone && rank.value == faults.lost_rank) continue;
        RoundKey key;
        key.group = "world";
        key.frame = group.frame;
        key.round = key.call = c;
        CodeCache& frame = ranks[r].frames[group.frame];
        frame.name = group.frame;
        RankStatus rank_status;
        rank_status.pending = 7;
        Observation seen = group.observation();
        machines[r] = std::make_unique<CallMachine>(rank, scenario.world_size, scenario.config, key,
                                                    frame, std::move(seen), rank_status);
        ranks[r].recorder->began(*machines[r]);
      }
    for (std::size_t waiting = 1; waiting > 0;) {
      waiting = 0;
      for (std::size_t r = 0; r < size; ++r)
        if (machines[r]) waiting += advance(*machines[r], *ranks[r].recorder, one_graph) ? 1 : 0;
      if (waiting == 0) break;
      if (gone) {
        for (auto& machine : machines)
          if (machine) machine->failed(Status{Code::RankLost, "a rank is gone", {}, {}});
        continue;
      }
      const auto result = fold_round(rounds, machines);
      EXPECT_TRUE(result.has_value());
      for (auto& machine : machines) answer(*machine, *result);
    }
    const std::size_t teller = gone && faults.lost_rank == 0 ? 1 : 0;
    outcomes.push_back(outcome_text(std::get<action::Finish>(machines[teller]->next()).outcome));
  }
  return outcomes;
}

}  // namespace lockstep::worker::simulator
