// The simulated backend: N virtual ranks in one thread, on a virtual clock, with seeded delays and
// faults. The rounds and their callers are the code of a real job. Used by dry runs and tests. No
// bytes move between processes, and the backend's name says so.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/collectives/communicator.h>

namespace lockstep::collectives {

struct NetworkOptions {
  int size = 1;
  std::uint64_t seed = 0;
  /// The time of a message is drawn uniformly from [least_delay, most_delay]. Two messages of one
  /// pair of ranks in one group never overtake each other; messages of different pairs or groups
  /// may.
  Duration least_delay = std::chrono::microseconds(1);
  Duration most_delay = std::chrono::microseconds(20);
  /// A rank that waits longer than this fails with Stuck.
  Duration deadline = std::chrono::seconds(60);
  /// A rank that waits for a crashed rank fails with RankLost after this time.
  Duration detection = std::chrono::milliseconds(100);
  /// Keeps the event log; see VirtualNetwork::log().
  bool record = false;
};

/// A network of virtual ranks. Single-threaded. Must outlive its communicators. Everything that
/// happens is a function of the options and the calls, so the same run twice gives the same log.
///
/// A rank's operation is posted with start() and then advances only by step(). A rank may have one
/// operation under way in each of its groups. wait() on one rank steps the whole network, and fails
/// with Stuck once no event is left that could end the wait. The first Stuck or RankLost of a rank
/// ends the job for all: waiting ranks get that Status at once, the others at their next operation.
/// A failed communicator stays failed.
class VirtualNetwork {
 public:
  explicit VirtualNetwork(const NetworkOptions& options);
  ~VirtualNetwork();
  VirtualNetwork(const VirtualNetwork&) = delete;
  VirtualNetwork& operator=(const VirtualNetwork&) = delete;

  [[nodiscard]] int size() const;
  /// The communicator of `rank` over all ranks; owned by the network.
  [[nodiscard]] Communicator& communicator(Rank rank);
  /// The communicator of `rank` in the group of `members`, which are numbered in ascending order.
  /// Requires that `rank` is a member.
  [[nodiscard]] Communicator& communicator(Rank rank, const RankSet& members);
  [[nodiscard]] const Clock& clock() const;
  /// Judgement::culprits of the verdict that ended the job; empty: no verdict, or no rank to blame.
  [[nodiscard]] const RankSet& culprits() const;

  /// From `at` on, the rank neither sends nor receives (until `until`), as if by SIGSTOP.
  void stop(Rank rank, Instant at, Instant until = Instant::max());
  /// From `at` on, the rank is gone, as if by SIGKILL.
  void crash(Rank rank, Instant at);
  /// Clean exit of the rank: ranks that wait for it fail with Stuck after `detection`.
  void finish(Rank rank);
  /// Messages from `rank` take `extra` longer from now on.
  void slow(Rank rank, Duration extra);
  /// Calls `then` at the virtual time `at`, as an event of its own.
  void call_at(Instant at, std::function<void()> then);
  /// Sets the lease of the rank, as a long compile does.
  void lease(Rank rank, Instant until);
  /// Sets the last event of `rank` in reports. Counts as progress.
  void note(Rank rank, std::string_view event);

  /// Delivers the next event; false when no event is left.
  bool step();
  /// Ranks with an operation that has ended, with success or not, since the last call; in the order
  /// in which the operations ended.
  [[nodiscard]] std::vector<Rank> take_ended();

  /// Messages and bytes that `rank` has received so far.
  struct Traffic {
    std::uint64_t messages = 0, bytes = 0;  // of rounds
    std::uint64_t data_bytes = 0;           // of collectives, including the rank's own share
  };
  [[nodiscard]] Traffic traffic(Rank rank) const;
  /// One line per event, empty unless recording.
  [[nodiscard]] const std::vector<std::string>& log() const;

  class State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::collectives
