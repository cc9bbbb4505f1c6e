// Holds what calls came to against the oracle of the dry run, which shares no code with the
// agreement.
#include <algorithm>
#include <map>
#include <utility>

#include "../worker/simulator/oracle.h"
#include "check.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace lockstep::fuzz {
namespace {

using nlohmann::json;
using worker::CallOutcome;
using worker::simulator::Scenario;

/// A call of a program: its step, and the turn where the step has several.
using Place = std::pair<std::size_t, int>;

int turns_of(const Step& step) {
  if (step.kind == Step::Kind::Call) return 1;
  if (step.kind != Step::Kind::More) return 0;
  return *std::max_element(step.batches.begin(), step.batches.end());
}

/// The calls of one group as a job of its own, and where in the program they stand.
Scenario scenario_of(const Program& program, std::size_t group, std::vector<Place>& places) {
  Scenario out;
  out.world_size = static_cast<int>(program.groups[group].members.size());
  out.config = program.groups[group].config;
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    const Step& step = program.steps[s];
    if (step.group != group) continue;
    for (int turn = 0; turn < turns_of(step); ++turn) {
      worker::simulator::ScenarioCall call;
      call.frame = step.frame;
      call.present = RankSet::all(out.world_size);
      for (int r = 0; r < out.world_size; ++r) {
        const auto place = static_cast<std::size_t>(r);
        const Values& inputs = step.inputs[place];
        call.groups.push_back(
            {RankSet::of(Rank{r}), step.frame,
             step.batches.empty() ? inputs : batch_of(inputs, step.batches[place], turn)});
      }
      out.calls.push_back(std::move(call));
      places.emplace_back(s, turn);
    }
  }
  return out;
}

/// "0-1" of the places in a group as ranks of the job.
std::string of_job(const std::string& places, const RankSet& members) {
  std::string error;
  const auto set = worker::simulator::parse_ranks(places, worker::simulator::kMaxWorldSize, error);
  RankSet out;
  std::int32_t place = 0;
  for (const RankSet::Run& run : members.runs())
    for (std::int32_t r = run.first; r <= run.last; ++r)
      if (set->contains(Rank{place++})) out.insert(RankSet::of(Rank{r}));
  return out.text();
}

/// "compiled 2", "error KIND_MISMATCH n", as the oracle says it and as the ranks saw it.
std::string said(const json& call, const RankSet& members) {
  std::string text = call["outcome"];
  if (call.contains("entry")) text += fmt::format(" {}", call["entry"].get<int>());
  if (!call.contains("error")) return text;
  const json& error = call["error"];
  text +=
      fmt::format(" {} {}", error["code"].get<std::string>(), error["source"].get<std::string>());
  for (const json& group : error["groups"])
    text += " " + of_job(group["ranks"].get<std::string>(), members);
  return text;
}

std::string seen(const CallOutcome& outcome) {
  switch (outcome.kind) {
    case CallOutcome::Kind::Reused:
      return fmt::format("reused {}", outcome.entry);
    case CallOutcome::Kind::Compiled:
      return fmt::format("compiled {}", outcome.entry);
    case CallOutcome::Kind::Fallback:
      return "fallback";
    case CallOutcome::Kind::Error:
      break;
  }
  std::string text =
      fmt::format("error {} {}", code_name(outcome.error->code), outcome.error->source);
  for (const RankValue& group : outcome.error->groups) text += " " + group.ranks.text();
  return text;
}

}  // namespace

std::optional<Violation> check_oracle(const Program& program, const Run& run) {
  std::map<Place, const Ended*> calls;
  for (const Ended& one : run.ended)
    if (one.kind == Ended::Kind::Call) calls[{one.step, one.turn}] = &one;
  for (std::size_t g = 0; g < program.groups.size(); ++g) {
    std::vector<Place> places;
    const Scenario scenario = scenario_of(program, g, places);
    if (places.empty()) continue;
    const json result = json::parse(worker::simulator::oracle_result(scenario));
    for (std::size_t c = 0; c < places.size(); ++c) {
      const auto& [step, turn] = places[c];
      const auto call = calls.find(places[c]);
      const std::string want = said(result["calls"][c], program.groups[g].members),
                        have = call == calls.end() ? "no call" : seen(call->second->outcome);
      if (want != have)
        return Violation{
            "oracle", fmt::format("step {}, turn {} came to \"{}\", the oracle says \"{}\"", step,
                                  turn, have, want)};
    }
  }
  for (const Ended& one : run.ended) {
    if (one.turn < 0 || one.step >= program.steps.size() ||
        program.steps[one.step].kind != Step::Kind::Any)
      continue;
    std::uint64_t yes = 0;
    for (int r = 0; r < program.ranks; ++r)
      if (program.groups[one.group].members.contains(Rank{r}))
        yes |= program.steps[one.step].yes >> r & 1;
    if (one.outcome.entry != static_cast<int>(yes))
      return Violation{"oracle",
                       fmt::format("step {} came to {}, not {}", one.step, one.outcome.entry, yes)};
  }
  return std::nullopt;
}

}  // namespace lockstep::fuzz
