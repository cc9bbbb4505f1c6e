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
  /// When this rank entered its current watched wait; nullopt: it is not waiting.
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

/// The verdict on `wait`; nullopt: nothing is wrong yet. A rank that ended without a clean exit is
/// RankLost at once, even if the asking rank is not waiting. Otherwise the verdict is about the
/// ranks that the asking rank waits for, directly or through other ranks that wait. It is Stuck if
///  - one of them has finished the job: at once, because that rank will not arrive;
///  - some of them hold up the wait. Such a rank does not wait, and within this wait has had
///    neither progress nor a lease for `deadline`. Or it is suspended in an operation that all
///    members have entered, and in which nothing has moved for `deadline`. The verdict names all
///    such ranks, and ranks of other hosts without news for three quarters of `deadline`, at least
///    3 s;
///  - all of them wait, in a ring or in the same operation, and nothing has moved for `deadline`.
///    Each of them that is on another host must have sent news later than half of `deadline` after
///    the wait began. The verdict names every operation and its ranks. (A proven ring is reported
///    before the deadline: ring.h.)
[[nodiscard]] std::optional<Judgement> judge(const BoardSnapshot& board, const Wait& wait,
                                             Instant now, Duration deadline);

/// The table of a report: what each rank was last seen doing; ranks with equal texts share a row.
[[nodiscard]] std::vector<RankValue> last_seen(const BoardSnapshot& board, Instant now);

}  // namespace lockstep::collectives
