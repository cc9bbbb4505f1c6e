// A rank's messages to the coordinator about itself: its identity, once, and its slot of the board,
// about once a second. Plain values. Times are durations relative to the moment of sending, because
// the clocks of two hosts are unrelated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/collectives/base/board_snapshot.h>
#include <lockstep/collectives/base/round_counts.h>

namespace lockstep::coordinator {

/// Longest texts accepted, in bytes.
inline constexpr std::size_t kJobBytes = 128, kHostBytes = 64, kBuildBytes = 64, kNameBytes = 48,
                             kNoteBytes = 96;
/// Maximum number of ranks of a watched job.
inline constexpr int kMostRanks = 1 << 16;
/// Maximum number of groups counted for one rank, as many as on a progress board.
inline constexpr std::size_t kMostGroups = 64;

/// A random number for each start of a rank's process.
enum class Incarnation : std::uint64_t {};

/// A rank of a job, and its process.
struct Identity {
  std::string job;
  Rank rank{};
  int size = 1;
  Incarnation incarnation{};
  std::string host;  // name of the host
  std::uint64_t host_id = 0;
  std::int32_t pid = 0;
  std::string build;  // different for different programs
  /// Time for which the job's own watchdogs wait for a rank without progress.
  Duration deadline{std::chrono::seconds(60)};
  bool operator==(const Identity&) const = default;
};

/// Number of operations of one group that the rank has begun.
struct GroupCount {
  std::uint64_t group = kWorldGroup;
  std::uint64_t begun = 0;
  bool operator==(const GroupCount&) const = default;
};

/// Counters of one rank since it started.
struct CallCounters {
  std::uint64_t reused = 0, compiled = 0, fallbacks = 0, errors = 0;  // calls by outcome
  std::uint64_t votes = 0, exchanges = 0;                             // numbers of rounds
  /// `waited`: time in votes until the first peer arrived. `wire`: the remaining time of rounds.
  /// `trace`, `compile`: time in traces and compiles.
  Duration waited{0}, wire{0}, trace{0}, compile{0};
  RoundCounts rounds;
  bool operator==(const CallCounters&) const = default;
};

/// A rank's slot of the progress board at one moment.
struct SlotReport {
  bool waiting = false;
  bool finished = false;
  Phase phase = Phase::Starting;
  OperationKind operation = OperationKind::None;
  std::uint64_t begun = 0;
  std::uint64_t group = kWorldGroup;  // group of the operation begun last
  std::uint64_t ordinal = 0;
  std::string group_name, event;
  Duration since_progress{0};
  Duration lease_left{0};  // zero: no lease
  /// Number of looks at the slot since the sender started, and number of these that found the rank
  /// waiting.
  std::uint64_t looks = 0, looks_waiting = 0;
  std::vector<GroupCount> groups;  // groups with this rank as a member
  CallCounters counters;
  bool operator==(const SlotReport&) const = default;
};

}  // namespace lockstep::coordinator
