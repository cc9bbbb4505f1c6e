// Rings: ranks that wait for each other, so that none of them can ever go on. Pure functions on
// snapshots of the board; the watchdog calls them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <lockstep/collectives/base/board_snapshot.h>
#include <lockstep/collectives/base/status.h>

namespace lockstep::collectives {

/// Ranks that wait for each other: each waits in an operation that cannot end before another of
/// them enters it. Sorted by rank.
struct Ring {
  struct Member {
    Rank rank{};
    std::uint64_t begun = 0;  // operations begun in all groups; identifies the wait
    bool operator==(const Member&) const = default;
  };
  std::vector<Member> members;
  bool operator==(const Ring&) const = default;
};

/// The largest ring that the board shows; nullopt: there is none. Votes, all_reduce, all_gather and
/// reduce_scatter need every member. Other operations (broadcast, all_to_all_single, an exchange)
/// may end without some members. In these a rank counts as held up only if no other member has
/// entered and all members are in the ring.
///
/// A snapshot is not read at one instant, so one alone proves nothing. If a second snapshot shows
/// the same ring, this is proof: in between all members were in these waits, and none had entered
/// the operation in which others wait for it.
[[nodiscard]] std::optional<Ring> find_ring(const BoardSnapshot& board);

/// The report on a ring: one way around the ring with operations, groups and ranks, and the table
/// of all ranks.
[[nodiscard]] Status ring_verdict(const BoardSnapshot& board, const Ring& ring, Instant now);

}  // namespace lockstep::collectives
