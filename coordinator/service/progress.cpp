#include <algorithm>

#include <lockstep/coordinator/service/progress.h>

namespace lockstep::coordinator {
namespace {

/// Maximum number of groups of one job whose waits are followed, more than the tensor, pipeline and
/// data groups of the largest job.
constexpr std::size_t kMostGroupsOfJob = 1 << 16;
/// Most looks counted in Seen::recent_looks; then all counts are halved. Twenty looks a second make
/// this number in a minute.
constexpr std::uint32_t kRecentLooks = 1200;

RankState state_of(const Identity& identity, const SlotReport& report, Instant now) {
  RankState state;
  state.known = true;
  state.finished = report.finished;
  state.waiting = report.waiting;
  state.pid = identity.pid;
  state.host = identity.host_id;
  state.begun = report.begun;
  state.operation = report.operation;
  state.group = report.group;
  state.group_name = report.group_name;
  state.ordinal = report.ordinal;
  state.phase = report.phase;
  state.event = report.event;
  state.progress = now - report.since_progress;
  if (report.lease_left > Duration{0}) state.lease = now + report.lease_left;
  return state;
}

/// Adds the looks since the last report. If `counts` is false, only keeps the report's totals, from
/// which the next call counts.
void count_looks(Seen& seen, const SlotReport& report, bool counts) {
  const auto since = [](std::uint64_t after, std::uint64_t before) {
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(after >= before ? after - before : 0, kRecentLooks));
  };
  const std::uint32_t looks = counts ? since(report.looks, seen.looks) : 0;
  seen.recent_looks += looks;
  seen.recent_waiting += std::min(looks, since(report.looks_waiting, seen.looks_waiting));
  seen.looks = report.looks;
  seen.looks_waiting = report.looks_waiting;
  if (seen.recent_looks < kRecentLooks) return;
  seen.recent_looks /= 2;
  seen.recent_waiting /= 2;
}

}  // namespace

void Progress::forget(Rank rank) {
  auto& place = ranks_[static_cast<std::size_t>(rank.value)];
  if (place && place->state.phase == Phase::Compiling) --compiling_;
  place.reset();
}

std::int64_t Seen::begun(std::uint64_t group) const {
  for (const GroupCount& count : groups)
    if (count.group == group) return static_cast<std::int64_t>(count.begun);
  return group == kWorldGroup ? 0 : -1;
}

/// True if others wait for this rank. Only waits that were reported before this report count,
/// because ranks that wait now may have begun to wait after it.
bool Progress::others_wait_for(const Seen& seen, Instant now) const {
  const auto behind = [&](std::uint64_t group) {
    const auto it = awaited_.find(group);
    return it != awaited_.end() && now > it->second.told &&
           seen.begun(group) < static_cast<std::int64_t>(it->second.ordinal);
  };
  return behind(kWorldGroup) ||
         std::any_of(seen.groups.begin(), seen.groups.end(),
                     [&](const GroupCount& count) { return behind(count.group); });
}

void Progress::take(const Identity& identity, const SlotReport& report, Instant now) {
  auto& place = ranks_[static_cast<std::size_t>(identity.rank.value)];
  if (!place) place = std::make_unique<Seen>();
  Seen& seen = *place;
  const bool same_wait = seen.state.waiting && report.waiting && seen.state.begun == report.begun &&
                         seen.state.ordinal == report.ordinal && seen.state.group == report.group;
  if (!same_wait) seen.wait_told = now;
  const Instant leased = std::min(seen.state.lease, now);  // now, or when the lease ended
  compiling_ -= seen.state.phase == Phase::Compiling ? 1 : 0;
  seen.state = state_of(identity, report, now);
  compiling_ += seen.state.phase == Phase::Compiling ? 1 : 0;
  seen.state.lease = std::max(seen.state.lease, leased);
  seen.told = now;
  seen.groups = report.groups;
  seen.counters = report.counters;
  count_looks(seen, report, compiling_ == 0);
  ++seen.reports;
  if (others_wait_for(seen, now)) ++seen.awaited;
  if (!report.waiting || (awaited_.size() >= kMostGroupsOfJob && !awaited_.contains(report.group)))
    return;
  Awaited& awaited = awaited_[report.group];
  if (report.ordinal > awaited.ordinal) awaited = {report.ordinal, now};
}

}  // namespace lockstep::coordinator
