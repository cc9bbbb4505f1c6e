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
  /// All this was so after this host had sent that mark (README.md): of a rank of another host.
  std::uint64_t heard = ~std::uint64_t{0};
  /// Until when it is known to move on.
  Instant alive_until{};
  /// Ranks that have not come to what it has issued, whether it waits there or not.
  std::vector<Rank> ahead_of;
};

/// A moment of the ranks that can be read, and what each has posted on the lines that any of them
/// waits in. Ranks of which nothing is known, or not for a while, are in no `ranks`.
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

/// Waits that were seen once to have no end, to be seen again.
struct BlockedSeen {
  std::vector<Blocked> blocked;
  Instant since{};
  std::uint64_t mark = 0;  // that this host had sent then
};
/// Whether `moment` shows the waits of `seen` again, and shows it of ranks of other hosts as it was
/// after that mark: they have not moved in between. If others are seen, these are `seen` from `now`
/// on. `mark`: that this host has sent by now.
[[nodiscard]] bool seen_again(BlockedSeen& seen, const WaitMoment& moment, Instant now,
                              std::uint64_t mark);

}  // namespace lockstep::lines
