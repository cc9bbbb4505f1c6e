// Waits that cannot end: ranks that wait for each other, over groups, or for a rank that has ended.
// Pure functions of what ranks have posted.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/collectives/base/status.h>
#include <lockstep/collectives/lines/posts.h>

namespace lockstep::lines {

/// State of one rank, as a peer reads it.
struct RankWaits {
  PeerState state = PeerState::Running;
  /// Changes with each post and each wait that begins or ends: equal values mean that nothing
  /// moved.
  std::uint64_t moves = 0;
  /// A thread that has issued before is in no wait: the rank may issue more without a wait ending.
  bool has_free_thread = false;
  /// The program has other threads, of which nothing is known.
  bool has_threads_beside = false;
  struct Wait {
    Waiting in;
    std::vector<Rank> needed;  // ranks whose part it needs
    Instant since{};
  };
  std::vector<Wait> waits;
  /// For a rank of another host: all this was so after this host had sent that mark (README.md).
  std::uint64_t heard = ~std::uint64_t{0};
  /// Time until which it is known to move on.
  Instant alive_until{};
  /// Ranks that have not issued what it has issued, whether it waits there or not.
  std::vector<Rank> ahead_of;
};

/// A moment of the ranks that can be read, and what each has posted on the lines of their waits.
/// `ranks` lacks those of which nothing is known, or not for a while.
struct WaitMoment {
  std::map<Rank, RankWaits> ranks;
  struct Counts {
    std::uint64_t posted = 0, handed = 0;
  };
  std::map<std::pair<LineKey, Rank>, Counts> counts;

  [[nodiscard]] Counts counts_of(LineKey key, Rank rank) const;
};

/// A wait that cannot end, and the rank it waits for.
struct Blocked {
  Rank rank{};
  Waiting waits;
  Rank by{};                // the first rank that holds it up
  std::uint64_t moves = 0;  // of the rank
  Instant since{};
  auto operator<=>(const Blocked&) const = default;
};

/// Returns the rank that holds up `wait`, through waits of others and through entries that others
/// have not issued: the lowest that waits for no rank and is not known to move on at `now`.
/// nullopt: no such rank, or one on the way moves on, has ended or is not seen.
[[nodiscard]] std::optional<Rank> find_silent(const WaitMoment& moment, const RankWaits::Wait& wait,
                                              Instant now);

/// Returns all waits that cannot end, by rank. Such a wait needs a member that has not issued the
/// entry and has ended; or, if every issuing thread of its rank waits, a member that cannot go on
/// either. One moment is not read at once, so it proves nothing; the same waits with the same moves
/// in a second moment do.
[[nodiscard]] std::vector<Blocked> find_blocked(const WaitMoment& moment);

/// Waits that were found once to have no end, and are to be found again.
struct BlockedSeen {
  std::vector<Blocked> blocked;
  Instant since{};
  std::uint64_t mark = 0;  // this host's last mark then
};
/// Whether `moment` shows the waits of `seen` again, and shows ranks of other hosts as they were
/// after that mark: they have not moved in between. If it shows other waits, these are `seen` from
/// `now` on. `mark`: this host's last mark.
[[nodiscard]] bool seen_again(BlockedSeen& seen, const WaitMoment& moment, Instant now,
                              std::uint64_t mark);

}  // namespace lockstep::lines
