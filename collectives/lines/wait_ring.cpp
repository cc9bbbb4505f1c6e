#include <algorithm>
#include <set>

#include <lockstep/collectives/lines/wait_ring.h>

namespace lockstep::lines {
namespace {

/// Returns the first rank needed by `wait` that has not issued the entry and has ended or is in
/// `stuck`; nullopt: all missing ranks may still issue it.
std::optional<Rank> held_by(const WaitMoment& moment, const RankWaits::Wait& wait,
                            const std::set<Rank>& stuck) {
  for (const Rank member : wait.needed) {
    const WaitMoment::Counts counts = moment.counts_of(wait.in.key, member);
    const auto there = moment.ranks.find(member);
    if (there == moment.ranks.end() || counts.handed > wait.in.number) continue;
    if (has_ended(there->second.state)) return member;
    if (counts.posted > wait.in.number) continue;
    if (counts.posted == 0 && there->second.has_threads_beside) continue;
    if (stuck.contains(member)) return member;
  }
  return std::nullopt;
}

}  // namespace

WaitMoment::Counts WaitMoment::counts_of(LineKey key, Rank rank) const {
  const auto found = counts.find({key, rank});
  return found == counts.end() ? Counts{} : found->second;
}

namespace {

/// Returns the ranks that `wait` needs and that have not issued its entry.
std::vector<Rank> missing_in(const WaitMoment& moment, const RankWaits::Wait& wait) {
  std::vector<Rank> out;
  for (const Rank member : wait.needed)
    if (moment.counts_of(wait.in.key, member).posted <= wait.in.number) out.push_back(member);
  return out;
}

}  // namespace

std::optional<Rank> find_silent(const WaitMoment& moment, const RankWaits::Wait& wait,
                                Instant now) {
  std::vector<Rank> open = missing_in(moment, wait);
  std::set<Rank> seen, silent;
  while (!open.empty()) {
    const Rank rank = open.back();
    open.pop_back();
    if (!seen.insert(rank).second) continue;
    const auto found = moment.ranks.find(rank);
    if (found == moment.ranks.end()) return std::nullopt;
    const RankWaits& there = found->second;
    std::vector<Rank> holds_it = there.ahead_of;
    for (const RankWaits::Wait& each : there.waits)
      for (const Rank member : missing_in(moment, each)) holds_it.push_back(member);
    if (holds_it.empty()) {
      if (has_ended(there.state) || there.alive_until >= now) return std::nullopt;
      silent.insert(rank);
    }
    open.insert(open.end(), holds_it.begin(), holds_it.end());
  }
  return silent.empty() ? std::nullopt : std::optional(*silent.begin());
}

std::vector<Blocked> find_blocked(const WaitMoment& moment) {
  std::set<Rank> stuck;
  for (const auto& [rank, waits] : moment.ranks)
    if (!has_ended(waits.state) && !waits.has_free_thread && !waits.waits.empty())
      stuck.insert(rank);
  for (bool changed = true; changed;) {
    changed = std::erase_if(stuck, [&](Rank rank) {
                const auto& waits = moment.ranks.at(rank).waits;
                return !std::all_of(waits.begin(), waits.end(), [&](const RankWaits::Wait& wait) {
                  return held_by(moment, wait, stuck).has_value();
                });
              }) > 0;
  }
  std::vector<Blocked> out;
  for (const auto& [rank, waits] : moment.ranks) {
    if (has_ended(waits.state)) continue;
    // A needed rank that has ended blocks a wait even if other threads of the waiting rank go on.
    const std::set<Rank> holds = stuck.contains(rank) ? stuck : std::set<Rank>();
    for (const RankWaits::Wait& wait : waits.waits)
      if (const auto by = held_by(moment, wait, holds))
        out.push_back({rank, wait.in, *by, waits.moves, wait.since});
  }
  return out;
}

bool seen_again(BlockedSeen& seen, const WaitMoment& moment, Instant now, std::uint64_t mark) {
  auto blocked = find_blocked(moment);
  if (blocked.empty() || blocked != seen.blocked) {
    seen = {std::move(blocked), now, mark};
    return false;
  }
  return std::all_of(blocked.begin(), blocked.end(), [&](const Blocked& one) {
    return moment.ranks.at(one.rank).heard > seen.mark;
  });
}

}  // namespace lockstep::lines
