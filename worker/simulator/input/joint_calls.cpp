#include <algorithm>
#include <map>

#include <lockstep/worker/simulator/input/joint_calls.h>

namespace lockstep::worker::simulator {
namespace {

RankSet members_of(const std::string& group, const std::vector<RankRecord>& ranks) {
  for (const RankRecord& rank : ranks)
    if (const auto found = rank.groups.find(group); found != rank.groups.end())
      return found->second;
  return RankSet::all(static_cast<int>(ranks.size()));
}

}  // namespace

JointCalls::JointCalls(const std::vector<RankRecord>& ranks) : ranks_(ranks) {
  if (std::ranges::any_of(ranks, [](const auto& rank) { return !rank.calls.slots().empty(); })) {
    add_agreements();
    return;
  }
  std::map<std::string, std::uint32_t> ids;
  std::vector<std::uint32_t> known;  // number of calls of each group so far
  for (const RankRecord& rank : ranks) {
    std::vector<std::pair<std::uint32_t, Place>> fresh;  // in the rank's own order
    for (const auto& [name, calls] : rank.calls.of_groups()) {
      const auto [at, first] = ids.try_emplace(name, static_cast<std::uint32_t>(groups_.size()));
      if (first) {
        groups_.push_back({name, members_of(name, ranks)});
        known.push_back(0);
      }
      std::uint32_t& number = known[at->second];
      for (; number < calls.size(); ++number)
        fresh.push_back({calls[number], {at->second, number}});
    }
    std::sort(fresh.begin(), fresh.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [own, place] : fresh) order_.push_back(place);
  }
}

// A rank need not have a call in every round, so calls are matched by their round.
void JointCalls::add_agreements() {
  for (const RankRecord& rank : ranks_)
    slots_.insert(slots_.end(), rank.calls.slots().begin(), rank.calls.slots().end());
  std::ranges::sort(slots_);
  slots_.erase(std::unique(slots_.begin(), slots_.end()), slots_.end());
  groups_.push_back({{}, members_of({}, ranks_)});
  for (std::uint32_t i = 0; i < slots_.size(); ++i) order_.push_back({0, i});
}

const std::string& JointCalls::group(std::size_t call) const {
  return groups_[order_[call].group].name;
}

const RankSet& JointCalls::members(std::size_t call) const {
  return groups_[order_[call].group].members;
}

std::optional<std::size_t> JointCalls::of(std::size_t call, std::size_t rank) const {
  if (!slots_.empty()) {
    const auto& own = ranks_[rank].calls.slots();
    const std::uint64_t slot = slots_[order_[call].number];
    const auto at = std::ranges::lower_bound(own, slot);
    if (at == own.end() || *at != slot) return std::nullopt;
    return static_cast<std::size_t>(at - own.begin());
  }
  const auto& groups = ranks_[rank].calls.of_groups();
  const auto calls = groups.find(group(call));
  const std::uint32_t number = order_[call].number;
  if (calls == groups.end() || number >= calls->second.size()) return std::nullopt;
  return calls->second[number];
}

std::vector<RecordedCalls::Alike> RecordedCalls::alike_in(std::size_t call) const {
  std::map<std::uint64_t, std::size_t> place;
  std::vector<Alike> out;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const auto own = joint_.of(call, r);
    if (!own) continue;
    const auto [at, fresh] = place.try_emplace(ranks_[r].calls.alike(*own), out.size());
    if (fresh) out.push_back({{}, *own});
    out[at->second].ranks.insert(Rank{static_cast<std::int32_t>(r)});
  }
  return out;
}

RankPartition RecordedCalls::partition() const {
  RankPartition out(static_cast<int>(ranks_.size()));
  for (std::size_t i = 0; i < size(); ++i) {
    std::vector<RankSet> groups;
    for (Alike& alike : alike_in(i)) groups.push_back(std::move(alike.ranks));
    out.add(groups);
  }
  return out;
}

Result<ScenarioCall> RecordedCalls::read(std::size_t index) const {
  ScenarioCall out;
  for (Alike& alike : alike_in(index)) {
    const auto lowest = static_cast<std::size_t>(alike.ranks.lowest().value);
    const auto call = ranks_[lowest].calls.read(alike.call);
    if (!call) return call.error();
    ScenarioGroup group{.ranks = std::move(alike.ranks),
                        .frame = call->frame,
                        .values = scenario_values(call->observation)};
    group.fields = call->observation.fields;
    out.present.insert(group.ranks);
    out.groups.push_back(std::move(group));
  }
  return out;
}

}  // namespace lockstep::worker::simulator
