// A job that starts from what its own earlier run left.
#include <algorithm>
#include <map>
#include <utility>

#include "check.h"
#include <fmt/format.h>

namespace lockstep::fuzz {
namespace {

using worker::Mark;
using worker::simulator::ScenarioValue;

/// The same source but for its sizes, or an int's value, and without marks.
bool only_sizes_differ(const ScenarioValue& a, const ScenarioValue& b) {
  const auto marked = [](const ScenarioValue& v) {
    return std::any_of(v.marks.begin(), v.marks.end(), [](Mark m) { return m != Mark::None; });
  };
  return a.kind == b.kind && a.dtype == b.dtype && a.sizes.size() == b.sizes.size() &&
         (a.kind != worker::Kind::Bool || a.number == b.number) && !marked(a) && !marked(b);
}

bool only_sizes_differ(const Values& a, const Values& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](auto& x, auto& y) {
           return x.first == y.first && only_sizes_differ(x.second, y.second);
         });
}

/// All calls of the frame, on all ranks, differ in sizes only.
bool steady(const Program& program, std::size_t group, const std::string& frame) {
  const Values* first = nullptr;
  for (const Step& step : program.steps) {
    if (step.group != group || step.frame != frame || step.kind == Step::Kind::Audit ||
        step.kind == Step::Kind::Local)
      continue;
    for (const Values& values : step.inputs) {
      if (first == nullptr) first = &values;
      if (!only_sizes_differ(*first, values)) return false;
    }
  }
  return first != nullptr;
}

bool restarted(const Program& program, const GroupPlan& group) {
  for (int r = 0; r < program.ranks; ++r)
    if (group.members.contains(Rank{r}) &&
        program.starts[static_cast<std::size_t>(r)] == Start::Same)
      return true;
  return false;
}

}  // namespace

std::optional<Violation> check_restart(const Program& program, const Run& run) {
  if (program.starts.empty() || !program.faults.empty()) return std::nullopt;
  std::map<std::pair<std::size_t, std::string>, std::map<int, int>> compiled;
  for (const Ended& one : run.ended)
    if (one.kind == Ended::Kind::Call && one.outcome.kind == worker::CallOutcome::Kind::Compiled)
      ++compiled[{one.group, one.frame}][one.rank];
  for (const auto& [key, by_rank] : compiled) {
    const GroupPlan& group = program.groups[key.first];
    // Past the recompile limit nothing is learnt.
    if (!restarted(program, group) || group.branches || group.asks || group.pads ||
        !group.config.automatic_dynamic || group.config.recompile_limit < 8 ||
        !steady(program, key.first, key.second))
      continue;
    for (const auto& [rank, times] : by_rank)
      if (times > 1)
        return Violation{"restart", fmt::format("rank {} compiled {} of group {} {} times", rank,
                                                key.second, key.first, times)};
  }
  return std::nullopt;
}

}  // namespace lockstep::fuzz
