// The verdict on a wait: from what the board shows of every rank, decides whether a rank is lost,
// whether the job is stuck, and which ranks are named. A pure function, so that every case is
// tested without time passing. The watchdog of a real job and the simulated network call it with
// the same kind of snapshot.
#pragma once

#include <optional>

#include <lockstep/collectives/base/board_snapshot.h>
#include <lockstep/collectives/base/status.h>

namespace lockstep::collectives {

/// What the asking rank is doing.
struct Wait {
  Rank self{};
  /// When it entered the watched wait in which it is; nullopt: it is not waiting.
  std::optional<Instant> since;
};

/// What is wrong with a wait.
struct Judgement {
  /// Stuck or RankLost. Status::groups lists what each rank was last doing.
  Status status;
  /// The ranks to blame: they are gone, have finished or hold the others up. Empty if all wait for
  /// each other.
  RankSet culprits{};
};

/// A rank that ended without a clean exit is RankLost at once, waiting or not. Otherwise, for a
/// waiting rank, the ranks it waits for, directly or through others that wait too:
///  - one of them has finished the job: Stuck at once, for it will not come;
///  - some of them do not wait themselves and have neither made progress nor held a lease for
///    `deadline` of this wait, or are suspended in an operation that all its ranks have entered and
///    in which nothing has moved for `deadline`: Stuck, naming all of these as a set, and ranks of
///    other hosts without news for three quarters of `deadline`, at least 3 s;
///  - all of them wait, in a ring or in the same operation, nothing has moved for `deadline`, and
///    there was news of those of other hosts in its second half: Stuck, naming every operation and
///    its ranks. (A proven ring need not wait for the deadline: ring.h.)
/// nullopt: nothing is wrong yet.
[[nodiscard]] std::optional<Judgement> judge(const BoardSnapshot& board, const Wait& wait,
                                             Instant now, Duration deadline);

/// The table of a report: what each rank was last seen doing, equal texts together.
[[nodiscard]] std::vector<RankValue> last_seen(const BoardSnapshot& board, Instant now);

}  // namespace lockstep::collectives
