// What the ranks of one job were last seen doing, from their reports. No sockets and no clock.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/coordinator/speech/report.h>

namespace lockstep::coordinator {

/// One rank, as its reports show it.
struct Seen {
  RankState state;       // its instants on the coordinator's clock
  Instant told{0};       // when the last report came
  Instant wait_told{0};  // when the first report of its present wait came
  std::vector<GroupCount> groups;
  std::uint64_t looks = 0, looks_waiting = 0;  // as last told
  CallCounters counters;
  /// Of the last two minutes or so, later ones counting more: looks that the sender took, and those
  /// that found it waiting.
  std::uint32_t recent_looks = 0, recent_waiting = 0;
  /// Reports, and those that showed it behind an operation in which another rank waited.
  std::uint64_t reports = 0, awaited = 0;

  /// Operations of `group` begun; those of the world begin at none. -1: no member of the group.
  [[nodiscard]] std::int64_t begun(std::uint64_t group) const;
};

/// The ranks of one job. Taking a report costs the same however many ranks there are. One thread.
class Progress {
 public:
  explicit Progress(int size) : ranks_(static_cast<std::size_t>(size)) {}

  void take(const Identity& identity, const Report& report, Instant now);
  /// It has been restarted: what it did is over.
  void forget(Rank rank) { ranks_[static_cast<std::size_t>(rank.value)].reset(); }

  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }
  /// nullptr: it has never reported.
  [[nodiscard]] const Seen* seen(Rank rank) const {
    return ranks_[static_cast<std::size_t>(rank.value)].get();
  }

 private:
  /// The furthest operation of a group in which a rank was seen waiting, and when that was told.
  struct Awaited {
    std::uint64_t ordinal = 0;
    Instant told{0};
  };
  [[nodiscard]] bool others_wait_for(const Seen& seen, Instant now) const;
  std::vector<std::unique_ptr<Seen>> ranks_;
  std::map<std::uint64_t, Awaited> awaited_;  // by group
};

}  // namespace lockstep::coordinator
