#include "program.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace lockstep::fuzz {
namespace {

using worker::Kind;
using worker::simulator::ScenarioValue;

std::string value_text(const ScenarioValue& value) {
  switch (value.kind) {
    case Kind::Int:
      return fmt::format("{}", value.number);
    case Kind::Bool:
      return value.number != 0 ? "true" : "false";
    case Kind::Float:
      return "float";
    case Kind::Tensor:
      break;
  }
  std::string text = fmt::format("{}{}", dtype_name(value.dtype), value.sizes);
  for (std::size_t d = 0; d < value.marks.size(); ++d)
    if (value.marks[d] != worker::Mark::None)
      text += fmt::format(" {}:{}", d, worker::mark_name(value.marks[d]));
  return text;
}

std::string values_text(const Values& values) {
  std::string text;
  for (const auto& [name, value] : values)
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", name, value_text(value));
  return text.empty() ? "no inputs" : text;
}

std::string group_text(const GroupPlan& group) {
  constexpr std::array kConsistency{"same_graph", "same_collectives", "shared_sizes"};
  return fmt::format("ranks {}, {}{}{}, limit {}{}{}", group.members.text(),
                     kConsistency[static_cast<std::size_t>(group.config.consistency)],
                     group.config.automatic_dynamic ? "" : ", no automatic dynamic",
                     group.config.assume_at_least_two ? "" : ", sizes from 0",
                     group.config.recompile_limit, group.branches ? ", branches" : "",
                     group.asks ? ", asks the group" : "");
}

std::string step_text(const Step& step, const GroupPlan& group) {
  if (step.kind == Step::Kind::Settle) return fmt::format("settle in group {}", step.group);
  if (step.kind == Step::Kind::Any)
    return fmt::format("any in group {}, ranks that say yes: {:b}", step.group, step.yes);
  std::string text = fmt::format("call {} in group {}", step.frame, step.group);
  std::size_t place = 0;
  for (const RankSet::Run& run : group.members.runs())
    for (int r = run.first; r <= run.last; ++r)
      text += fmt::format("\n    rank {}: {}", r, values_text(step.inputs[place++]));
  return text;
}

}  // namespace

std::string_view fault_name(Fault::Kind kind) {
  constexpr std::array<std::string_view, kFaultKinds> kNames{
      "trouble",       "trace fails",         "graph differs",   "compile fails", "wrong frame",
      "other pending", "lost cache",          "garbled payload", "pause",         "slow",
      "stop",          "skipped step",        "leaves",          "hangs",         "crash",
      "freeze",        "ignores commit votes"};
  return kNames[static_cast<std::size_t>(kind)];
}

bool at_step(Fault::Kind kind) {
  using K = Fault::Kind;
  return kind != K::Slow && kind != K::Stop && kind != K::Crash && kind != K::Freeze &&
         kind != K::IgnoresCommit;
}

bool ends_job(Fault::Kind kind) { return kind >= Fault::Kind::Skip && kind <= Fault::Kind::Freeze; }

bool Program::strikes(Fault::Kind kind) const {
  return std::any_of(faults.begin(), faults.end(), [&](const Fault& f) { return f.kind == kind; });
}

bool Program::ends_early() const {
  return std::any_of(faults.begin(), faults.end(), [](const Fault& f) { return ends_job(f.kind); });
}

std::string program_text(const Program& program) {
  std::string text = fmt::format("{} ranks\n", program.ranks);
  for (std::size_t g = 0; g < program.groups.size(); ++g)
    text += fmt::format("group {}: {}\n", g, group_text(program.groups[g]));
  for (std::size_t s = 0; s < program.steps.size(); ++s)
    text += fmt::format("step {}: {}\n", s,
                        step_text(program.steps[s], program.groups[program.steps[s].group]));
  for (const Fault& fault : program.faults)
    text += fmt::format("fault: rank {}, {}{}, amount {}\n", fault.rank, fault_name(fault.kind),
                        at_step(fault.kind) ? fmt::format(" at step {}", fault.step) : "",
                        fault.amount);
  return text;
}

}  // namespace lockstep::fuzz
