#include <algorithm>
#include <map>
#include <tuple>

#include <lockstep/worker/simulator/input/partition.h>
#include <lockstep/worker/simulator/input/scenario.h>

namespace lockstep::worker::simulator {
namespace {

/// A run of ranks in one group of a call.
struct Piece {
  RankSet::Run run;
  int group = 0;
  auto operator<=>(const Piece&) const = default;
};

/// Group of each class, found by its lowest rank. `pieces` are disjoint.
std::vector<int> groups_of(const std::vector<RankClass>& classes, std::vector<Piece> pieces) {
  std::sort(pieces.begin(), pieces.end());
  std::vector<int> out;
  auto piece = pieces.begin();
  for (const RankClass& of : classes) {
    const std::int32_t lowest = of.lowest().value;
    while (piece != pieces.end() && piece->run.last < lowest) ++piece;
    out.push_back(piece != pieces.end() && piece->run.first <= lowest ? piece->group : -1);
  }
  return out;
}

}  // namespace

void RankPartition::add(const ScenarioCall& call) {
  std::vector<RankSet> groups;
  for (const ScenarioGroup& group : call.groups) groups.push_back(group.ranks);
  add(groups);
}

void RankPartition::add(const std::vector<RankSet>& groups) {
  if (groups == last_) return;
  last_ = groups;
  std::vector<std::int32_t> cuts;
  for (const RankSet& group : groups)
    for (const RankSet::Run& run : group.runs()) {
      cuts.push_back(run.first);
      if (run.last + 1 < world_size_) cuts.push_back(run.last + 1);
    }
  std::sort(cuts.begin(), cuts.end());
  std::vector<std::int32_t> starts;
  std::set_union(starts_.begin(), starts_.end(), cuts.begin(), cuts.end(),
                 std::back_inserter(starts));
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  // For each run of ranks: its class so far, and its group in this call.
  std::vector<std::pair<int, int>> apart;
  for (std::size_t i = 0, before = 0; i < starts.size(); ++i) {
    while (before + 1 < starts_.size() && starts_[before + 1] <= starts[i]) ++before;
    apart.emplace_back(class_of_[before], -1);
  }
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (const RankSet::Run& run : groups[g].runs())
      for (auto at = std::lower_bound(starts.begin(), starts.end(), run.first);
           at != starts.end() && *at <= run.last; ++at)
        apart[static_cast<std::size_t>(at - starts.begin())].second = static_cast<int>(g);
  std::map<std::pair<int, int>, int> classes;
  class_of_.clear();
  for (const auto& one : apart)
    class_of_.push_back(classes.try_emplace(one, static_cast<int>(classes.size())).first->second);
  starts_ = std::move(starts);
}

std::vector<RankClass> RankPartition::classes() const {
  std::vector<RankClass> out;
  for (std::size_t i = 0; i < starts_.size(); ++i) {
    const auto c = static_cast<std::size_t>(class_of_[i]);
    if (c == out.size()) out.emplace_back();
    const std::int32_t end = i + 1 < starts_.size() ? starts_[i + 1] : world_size_;
    out[c].ranks.insert({starts_[i], end - 1});
  }
  return out;
}

std::vector<int> groups_of(const std::vector<RankClass>& classes, const ScenarioCall& call) {
  std::vector<Piece> pieces;
  for (std::size_t g = 0; g < call.groups.size(); ++g)
    for (const RankSet::Run& run : call.groups[g].ranks.runs())
      pieces.push_back({run, static_cast<int>(g)});
  return groups_of(classes, std::move(pieces));
}

std::vector<int> groups_of(const std::vector<RankClass>& classes, const RankSet& present) {
  std::vector<Piece> pieces;
  for (const RankSet::Run& run : present.runs()) pieces.push_back({run, 0});
  return groups_of(classes, std::move(pieces));
}

std::vector<RankClass> classes_of(const Scenario& scenario) {
  RankPartition apart =
      scenario.stored ? scenario.stored->partition() : RankPartition(scenario.world_size);
  for (const ScenarioCall& call : scenario.calls) apart.add(call);
  for (const GeneratedCall& kind : scenario.generator.kinds)
    if (kind.as_is) apart.add(*kind.as_is);
  for (const auto& [number, away] : scenario.generator.absent)
    apart.add({scenario.generator.present(number, scenario.world_size)});
  return apart.classes();
}

}  // namespace lockstep::worker::simulator
