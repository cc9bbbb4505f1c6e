// What a rank says of itself to the coordinator: who it is, once, and what it is doing, about once
// a second. Plain values. Times are spans seen from the moment of sending, because the clocks of
// two hosts have nothing to do with each other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/collectives/base/board_snapshot.h>
#include <lockstep/collectives/base/round_counts.h>

namespace lockstep::coordinator {

/// Longest texts taken, in bytes.
inline constexpr std::size_t kJobBytes = 128, kHostBytes = 64, kBuildBytes = 64, kNameBytes = 48,
                             kNoteBytes = 96;
/// Largest job that is watched.
inline constexpr int kMostRanks = 1 << 16;
/// Groups of one rank whose operations are counted; as many as a progress board has.
inline constexpr std::size_t kMostGroups = 64;

/// One start of one rank's process: a restarted rank has another. Drawn at random.
enum class Incarnation : std::uint64_t {};

/// Which rank of which job this is, and where it runs.
struct Identity {
  std::string job;
  Rank rank{};
  int size = 1;
  Incarnation incarnation{};
  std::string host;  // by name
  std::uint64_t host_id = 0;
  std::int32_t pid = 0;
  std::string build;  // tells programs apart
  /// How long the job waits for a rank that shows no progress, by its own watchdogs.
  Duration deadline{std::chrono::seconds(60)};
  bool operator==(const Identity&) const = default;
};

/// Operations of one group that the rank has begun.
struct GroupCount {
  std::uint64_t group = kWorldGroup;
  std::uint64_t begun = 0;
  bool operator==(const GroupCount&) const = default;
};

/// What one rank has counted since it started.
struct CallCounters {
  std::uint64_t reused = 0, compiled = 0, fallbacks = 0, errors = 0;  // calls, by outcome
  std::uint64_t votes = 0, exchanges = 0;                             // rounds
  /// In rounds: until a vote's first peer was there, and the rest. Beside them: traces, compiles.
  Duration waited{0}, wire{0}, trace{0}, compile{0};
  RoundCounts rounds;
  bool operator==(const CallCounters&) const = default;
};

/// A rank's slot of the progress board at one moment.
struct Report {
  bool waiting = false;
  bool finished = false;
  Phase phase = Phase::Starting;
  OperationKind operation = OperationKind::None;
  std::uint64_t begun = 0;
  std::uint64_t group = kWorldGroup;  // of the operation begun last
  std::uint64_t ordinal = 0;
  std::string group_name, event;
  Duration since_progress{0};
  Duration lease_left{0};  // zero: none
  /// Looks that the sender has taken at its slot since it started, and those that found it waiting.
  std::uint64_t looks = 0, looks_waiting = 0;
  std::vector<GroupCount> groups;  // those that the rank is a member of
  CallCounters counters;
  bool operator==(const Report&) const = default;
};

}  // namespace lockstep::coordinator
