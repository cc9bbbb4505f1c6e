// The last known state of the ranks of one job, from their reports. No sockets and no clock.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/coordinator/messages/slot_report.h>

namespace lockstep::coordinator {

/// The state of one rank from its reports.
struct Seen {
  RankState state;       // its instants are on the coordinator's clock
  Instant told{0};       // when the last report arrived
  Instant wait_told{0};  // when the first report of its current wait arrived
  std::vector<GroupCount> groups;
  std::uint64_t looks = 0, looks_waiting = 0;  // the totals of the last report
  CallCounters counters;
  /// Number of looks at the rank's state while no rank compiled, in about the last minute, and
  /// number of these that found the rank waiting. Later looks count more.
  std::uint32_t recent_looks = 0, recent_waiting = 0;
  /// Number of reports, and of reports that arrived while another rank waited in an operation that
  /// this rank had not begun.
  std::uint64_t reports = 0, awaited = 0;

  /// Number of operations of `group` that the rank has begun; -1: the rank is not a member of the
  /// group. For kWorldGroup 0 if the report has no number.
  [[nodiscard]] std::int64_t begun(std::uint64_t group) const;
};

/// The ranks of one job. The cost of a report does not depend on the number of ranks.
/// Single-threaded.
class Progress {
 public:
  explicit Progress(int size) : ranks_(static_cast<std::size_t>(size)) {}

  void take(const Identity& identity, const SlotReport& report, Instant now);
  /// Drops the state of a rank that has been restarted.
  void forget(Rank rank);

  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }
  /// nullptr: the rank has never reported.
  [[nodiscard]] const Seen* seen(Rank rank) const {
    return ranks_[static_cast<std::size_t>(rank.value)].get();
  }

 private:
  /// The latest operation of a group in which a rank was seen waiting, and when that was reported.
  struct Awaited {
    std::uint64_t ordinal = 0;
    Instant told{0};
  };
  [[nodiscard]] bool others_wait_for(const Seen& seen, Instant now) const;
  std::vector<std::unique_ptr<Seen>> ranks_;
  int compiling_ = 0;                         // number of ranks that compile
  std::map<std::uint64_t, Awaited> awaited_;  // by group
};

}  // namespace lockstep::coordinator
