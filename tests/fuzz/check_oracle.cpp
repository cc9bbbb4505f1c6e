// Holds what calls came to against the oracle of the dry run, which shares no code with the
// agreement.
#include <map>

#include "../worker/simulator/oracle.h"
#include "check.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace lockstep::fuzz {
namespace {

using nlohmann::json;
using worker::CallOutcome;
using worker::simulator::Scenario;

/// The calls of one group as a job of its own, and at which steps they stand.
Scenario scenario_of(const Program& program, std::size_t group, std::vector<std::size_t>& steps) {
  Scenario out;
  out.world_size = static_cast<int>(program.groups[group].members.size());
  out.config = program.groups[group].config;
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    const Step& step = program.steps[s];
    if (step.group != group || step.kind != Step::Kind::Call) continue;
    worker::simulator::ScenarioCall call;
    call.frame = step.frame;
    call.present = RankSet::all(out.world_size);
    for (int r = 0; r < out.world_size; ++r)
      call.groups.push_back(
          {RankSet::of(Rank{r}), step.frame, step.inputs[static_cast<std::size_t>(r)]});
    out.calls.push_back(std::move(call));
    steps.push_back(s);
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
  std::map<std::size_t, const Ended*> by_step;
  for (const Ended& one : run.ended) by_step[one.step] = &one;
  for (std::size_t g = 0; g < program.groups.size(); ++g) {
    std::vector<std::size_t> steps;
    const Scenario scenario = scenario_of(program, g, steps);
    if (steps.empty()) continue;
    const json result = json::parse(worker::simulator::oracle_result(scenario));
    for (std::size_t c = 0; c < steps.size(); ++c) {
      const std::string want = said(result["calls"][c], program.groups[g].members),
                        have = seen(by_step[steps[c]]->outcome);
      if (want != have)
        return Violation{"oracle", fmt::format("step {} came to \"{}\", the oracle says \"{}\"",
                                               steps[c], have, want)};
    }
  }
  for (const Ended& one : run.ended) {
    if (one.step >= program.steps.size() || program.steps[one.step].kind != Step::Kind::Any)
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
