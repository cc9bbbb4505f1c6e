// Waits that cannot end: ranks that wait for each other, across groups, or for a rank that has
// ended. Pure functions of what ranks have posted.
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
  /// Some thread that has issued before is in no wait, so the rank may issue more before any of its
  /// waits ends.
  bool has_free_thread = false;
  /// The program has other threads, about which nothing is known.
  bool has_threads_beside = false;
  struct Wait {
    Waiting in;
    std::vector<Rank> needed;  // ranks whose part the wait needs
    Instant since{};
  };
  std::vector<Wait> waits;
  /// For a rank of another host: the last mark of this host that the rank's host had received when
  /// it read this state (README.md).
  std::uint64_t heard = ~std::uint64_t{0};
  /// Time until which the rank is known to move on.
  Instant alive_until{};
  /// Ranks that have not issued all that this rank has issued, whether or not this rank waits for
  /// them.
  std::vector<Rank> ahead_of;
};

/// The ranks that can be read at one moment, and what they have posted on the lines of the waits.
/// `ranks` omits ranks about which nothing is known, or nothing recent.
struct WaitMoment {
  std::map<Rank, RankWaits> ranks;
  struct Counts {
    std::uint64_t posted = 0, handed = 0;
  };
  std::map<std::pair<LineKey, Rank>, Counts> counts;

  [[nodiscard]] Counts counts_of(LineKey key, Rank rank) const;
};

/// A wait that cannot end, and a rank that holds it up.
struct Blocked {
  Rank rank{};
  Waiting waits;
  Rank by{};                // the first rank that holds up the wait
  std::uint64_t moves = 0;  // RankWaits::moves of `rank`
  Instant since{};
  auto operator<=>(const Blocked&) const = default;
};

/// Follows `wait` to the needed ranks that have not issued its entry, from these to the ranks that
/// they wait for or are ahead of, and so on. Returns the lowest rank reached that neither waits for
/// a rank nor is ahead of one. nullopt: there is no such rank, such a rank has ended or is known to
/// move on at `now`, or a rank on the way is not seen.
[[nodiscard]] std::optional<Rank> find_silent(const WaitMoment& moment, const RankWaits::Wait& wait,
                                              Instant now);

/// Returns all waits that cannot end, by rank. Such a wait needs a member that has not issued the
/// entry and has ended. Or every issuing thread of the waiting rank waits, and a needed member that
/// has not issued the entry cannot go on either. One moment is not read at one instant, so it
/// proves nothing; the same waits with the same moves in a second moment are the proof.
[[nodiscard]] std::vector<Blocked> find_blocked(const WaitMoment& moment);

/// Waits that one moment showed as unable to end, and that a second moment is to confirm.
struct BlockedSeen {
  std::vector<Blocked> blocked;
  Instant since{};
  std::uint64_t mark = 0;  // this host's last mark at `since`
};
/// True if `moment` shows the waits of `seen` again, and the hosts of the waiting ranks had by then
/// received a mark later than `seen.mark`. Then the ranks have not moved in between. If `moment`
/// shows other waits, sets `seen` to these, with `now` and `mark`. `mark`: this host's last mark.
[[nodiscard]] bool seen_again(BlockedSeen& seen, const WaitMoment& moment, Instant now,
                              std::uint64_t mark);

}  // namespace lockstep::lines
