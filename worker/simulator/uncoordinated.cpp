// The counterfactual: what the ranks would do without lockstep. Every class of equal ranks runs
// alone, through the same call machine as a group of one.
#include <algorithm>
#include <map>

#include <lockstep/worker/simulator/dry_run.h>
#include <lockstep/worker/simulator/group.h>
#include <lockstep/worker/simulator/partition.h>

namespace lockstep::worker::simulator {
namespace {

/// Answers one machine of a group of one: what it votes is the vote, what it sends is the join.
CallOutcome run_alone(CallMachine& machine) {
  for (;;) {
    (void)answer_locally(machine);
    const Action action = machine.next();
    if (const auto* finish = std::get_if<action::Finish>(&action)) return finish->outcome;
    if (const auto* vote = std::get_if<action::Vote>(&action)) {
      machine.voted(vote->mine);
    } else if (const auto* exchange = std::get_if<action::Exchange>(&action)) {
      machine.joined(exchange->mine);
    } else if (const auto* broadcast = std::get_if<action::Broadcast>(&action)) {
      machine.joined(broadcast->mine);
    }
  }
}

/// What makes two ranks run different programs: all of a decision but hints, and but who may not be
/// specialised.
shapes::Fingerprint program_of(Decision decision) {
  for (SymbolDecision& symbol : decision.symbols) symbol.pinned_is_error = false;
  return decision.digest();
}

/// One class of ranks on its own.
struct Loner {
  std::map<std::string, Frame> frames;
  std::map<std::string, std::vector<shapes::Fingerprint>> programs;  // of the entries, by frame
  int compiles = 0;
};

/// What a rank ran in one call.
struct Ran {
  bool compiled = false;
  std::optional<shapes::Fingerprint> program;  // nullopt: fallback
  auto operator<=>(const Ran&) const = default;
};

Ran run_call(const Scenario& scenario, std::size_t index, const std::string& name,
             const Observation& observation, Loner& rank) {
  Frame& frame = rank.frames[name];
  frame.name = name;
  RoundKey key;
  key.group = "alone";
  key.frame = name;
  key.call = index;
  CallMachine machine(Rank{0}, 1, scenario.config, std::move(key), frame, observation);
  const CallOutcome outcome = run_alone(machine);
  std::vector<shapes::Fingerprint>& programs = rank.programs[name];
  while (programs.size() < frame.entries.size())
    programs.push_back(program_of(frame.entries[programs.size()].decision));
  Ran ran;
  ran.compiled = outcome.kind == CallOutcome::Kind::Compiled;
  if (ran.compiled) ++rank.compiles;
  if (outcome.entry >= 0) ran.program = programs[static_cast<std::size_t>(outcome.entry)];
  return ran;
}

}  // namespace

Uncoordinated run_uncoordinated(const Scenario& scenario) {
  const std::vector<RankClass> classes = partition(scenario);
  std::vector<Loner> ranks(classes.size());
  Uncoordinated out;
  for (std::size_t c = 0; c < scenario.calls.size(); ++c) {
    const ScenarioCall& call = scenario.calls[c];
    std::vector<Observation> observations;
    for (const ScenarioGroup& group : call.groups)
      observations.push_back(observation_of(group.values));
    std::map<std::string, std::vector<Ran>> by_frame;
    for (std::size_t r = 0; r < classes.size(); ++r) {
      if (classes[r].group[c] < 0) continue;
      const auto g = static_cast<std::size_t>(classes[r].group[c]);
      const std::string& frame = call.groups[g].frame;
      by_frame[frame].push_back(run_call(scenario, c, frame, observations[g], ranks[r]));
    }
    for (auto& [frame, ran] : by_frame) {
      std::sort(ran.begin(), ran.end());
      if (ran.front() != ran.back() && !out.first_divergent_call) out.first_divergent_call = c;
      std::sort(ran.begin(), ran.end(),
                [](const Ran& a, const Ran& b) { return a.program < b.program; });
      const auto end = std::unique(ran.begin(), ran.end(), [](const Ran& a, const Ran& b) {
        return a.program == b.program;
      });
      out.distinct_graphs_max =
          std::max(out.distinct_graphs_max, static_cast<int>(end - ran.begin()));
    }
  }
  for (const Loner& rank : ranks)
    out.compiles_per_rank_max = std::max(out.compiles_per_rank_max, rank.compiles);
  return out;
}

}  // namespace lockstep::worker::simulator
