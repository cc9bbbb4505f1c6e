#include <algorithm>
#include <map>

#include <lockstep/worker/simulator/outline.h>

namespace lockstep::worker::simulator {
namespace {

/// First ranks of the intervals on which nothing changes in any call, ascending; starts with 0.
std::vector<std::int32_t> interval_starts(std::span<const ScenarioCall> calls, int world_size) {
  std::vector<std::int32_t> starts{0};
  for (const ScenarioCall& call : calls)
    for (const ScenarioGroup& group : call.groups)
      for (const RankSet::Run& run : group.ranks.runs()) {
        starts.push_back(run.first);
        if (run.last + 1 < world_size) starts.push_back(run.last + 1);
      }
  std::sort(starts.begin(), starts.end());
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  return starts;
}

/// The group of each interval in one call, -1 for none.
std::vector<int> groups_of(const ScenarioCall& call, const std::vector<std::int32_t>& starts) {
  std::vector<int> out(starts.size(), -1);
  for (std::size_t g = 0; g < call.groups.size(); ++g)
    for (const RankSet::Run& run : call.groups[g].ranks.runs()) {
      const auto begin = std::lower_bound(starts.begin(), starts.end(), run.first);
      for (auto it = begin; it != starts.end() && *it <= run.last; ++it)
        out[static_cast<std::size_t>(it - starts.begin())] = static_cast<int>(g);
    }
  return out;
}

}  // namespace

Outline::Outline(const Scenario& scenario)
    : explicit_(scenario.calls.size()), calls_(scenario.calls) {
  for (const auto& [number, away] : scenario.generator.absent) {
    place_[explicit_ + number] = calls_.size();
    ScenarioGroup group{scenario.generator.present(number, scenario.world_size), {}, {}};
    ScenarioCall& call = calls_.emplace_back();
    call.present = group.ranks;
    if (!group.ranks.empty()) call.groups.push_back(std::move(group));
  }
}

int Outline::group_of(const RankClass& of, std::size_t call) const {
  if (call < explicit_) return of.group[call];
  const auto at = place_.find(call);
  return at == place_.end() ? 0 : of.group[at->second];
}

std::vector<RankClass> partition(std::span<const ScenarioCall> calls, int world_size) {
  const std::vector<std::int32_t> starts = interval_starts(calls, world_size);
  // Refined call by call: intervals are in one class as long as they were in the same groups so
  // far.
  std::vector<int> class_of(starts.size(), 0);
  std::vector<std::vector<int>> groups;
  int count = 1;
  for (const ScenarioCall& call : calls) {
    groups.push_back(groups_of(call, starts));
    std::map<std::pair<int, int>, int> refined;
    for (std::size_t i = 0; i < starts.size(); ++i)
      class_of[i] =
          refined.try_emplace({class_of[i], groups.back()[i]}, static_cast<int>(refined.size()))
              .first->second;
    count = static_cast<int>(refined.size());
  }
  std::vector<RankClass> out(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < starts.size(); ++i) {
    RankClass& into = out[static_cast<std::size_t>(class_of[i])];
    const std::int32_t end = i + 1 < starts.size() ? starts[i + 1] : world_size;
    if (into.ranks.empty())
      for (const std::vector<int>& call : groups) into.group.push_back(call[i]);
    into.ranks.insert({starts[i], end - 1});
  }
  return out;
}

}  // namespace lockstep::worker::simulator
