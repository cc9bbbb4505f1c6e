// Waits that cannot end: ranks that wait for each other, over groups, or for one that has ended.
// Pure functions on what ranks of a host have posted.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/collectives/base/status.h>
#include <lockstep/collectives/lines/posts.h>

namespace lockstep::lines {

/// What one rank is doing, as a peer reads it.
struct RankWaits {
  PeerState state = PeerState::Running;
  /// Changes with each post and each wait that begins or ends: tells this moment from any other.
  std::uint64_t moves = 0;
  /// It may issue something without one of its waits ending: a thread that has issued before waits
  /// for nothing here.
  bool has_free_thread = false;
  /// Threads of the program besides, of which nothing is known.
  bool has_threads_beside = false;
  struct Wait {
    Waiting in;
    std::vector<Rank> needed;  // ranks of the job, whose part it needs
    Instant since{};
  };
  std::vector<Wait> waits;
  /// Until when it is known to move on.
  Instant alive_until{};
  /// Ranks that have not come to what it has issued, whether it waits there or not.
  std::vector<Rank> ahead_of;
};

/// A moment of the ranks of a host that can be read, and what each has posted on the lines that any
/// of them waits in. Those of other hosts are in no `ranks`.
struct WaitMoment {
  std::map<Rank, RankWaits> ranks;
  struct Counts {
    std::uint64_t posted = 0, handed = 0;
  };
  std::map<std::pair<LineKey, Rank>, Counts> counts;

  [[nodiscard]] Counts counts_of(LineKey key, Rank rank) const;
};

/// A wait that cannot end, and for whom.
struct Blocked {
  Rank rank{};
  Waiting waits;
  Rank by{};                // the lowest of those that have not come
  std::uint64_t moves = 0;  // of the rank
  Instant since{};
  auto operator<=>(const Blocked&) const = default;
};

/// The rank that holds up `wait`, over waits of others and over what they have issued alone: it
/// waits for nobody, and is not known to move on at `now`. nullopt: there is none, or one of those
/// in question moves on, or is not seen.
[[nodiscard]] std::optional<Rank> find_silent(const WaitMoment& moment, const RankWaits::Wait& wait,
                                              Instant now);

/// All waits that cannot end, by rank: for a member that has not come and has ended; or, of ranks
/// that wait on every thread that issues, for one that cannot go on itself. Empty: there is none.
/// One moment is not read at once, so it proves nothing; the same waits with the same moves in a
/// second one do.
[[nodiscard]] std::vector<Blocked> find_blocked(const WaitMoment& moment);

}  // namespace lockstep::lines
