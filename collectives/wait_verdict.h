// The verdict on a wait: given what the board shows of every rank, is a rank lost, is the job
// stuck, and who is to be named. A pure function, so that every case is tested without time
// passing. The watchdog of a real job and the simulated network call it with the same kind of
// snapshot.
#pragma once

#include <optional>

#include <lockstep/collectives/base/board_snapshot.h>
#include <lockstep/collectives/base/status.h>

namespace lockstep::collectives {

/// What the asking rank is doing.
struct Wait {
  Rank self{};
  /// Since when it has been inside one watched wait; none: it is not waiting.
  std::optional<Instant> since;
};

/// What is wrong with a wait.
struct Judgement {
  /// Stuck or RankLost. Status::groups lists what each rank was last doing.
  Status status;
  /// Whom the sentence is about: those that are gone, have finished or hold the others up. Empty
  /// where all wait for each other.
  RankSet culprits{};
};

/// A rank that ended without a clean exit is RankLost at once, waiting or not. Otherwise, for a
/// waiting rank, the ranks it waits for, directly or through others that wait too:
///  - one of them has finished the job: Stuck at once, for it will not come;
///  - some of them do not wait themselves and have neither made progress nor held a lease for
///    `deadline` of this wait, or are suspended in an operation to which all its ranks have come
///    and in which nothing has moved for so long: Stuck, naming all of these, as a set, and those
///    of other hosts of which nothing has been heard for three quarters of that, and for 3 s;
///  - all of them wait, in a ring or in the same operation, nothing has moved for `deadline`, and
///    those of other hosts were heard of in its second half: Stuck, naming every operation and who
///    is in it. (A ring that is proven need not wait for the deadline: ring.h.)
/// nullopt: nothing is wrong yet.
[[nodiscard]] std::optional<Judgement> judge(const BoardSnapshot& board, const Wait& wait,
                                             Instant now, Duration deadline);

/// The table of a report: what each rank was last seen doing, equal texts together.
[[nodiscard]] std::vector<RankValue> last_seen(const BoardSnapshot& board, Instant now);

}  // namespace lockstep::collectives
