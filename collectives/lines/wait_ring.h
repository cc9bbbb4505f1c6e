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

/// All waits that cannot end, by rank: for a member that has not come and has ended; or, of ranks
/// that wait on every thread that issues, for one that cannot go on itself. Empty: there is none.
/// One moment is not read at once, so it proves nothing; the same waits with the same moves in a
/// second one do.
[[nodiscard]] std::vector<Blocked> find_blocked(const WaitMoment& moment);

}  // namespace lockstep::lines
