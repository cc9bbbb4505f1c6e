// How a process joins the others of its job: over TCP if there is a rendezvous; else by MPI if it
// is built in, or as a world of one rank. The build selects world_mpi.cpp or world_single.cpp.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <lockstep/collectives/communicator.h>
#include <lockstep/collectives/tcp/tcp.h>
#include <lockstep/collectives/watch.h>

namespace lockstep::worker {

struct Settings;

/// Number of deadlines for waits at the start and end of a job, and for the trace of a user's
/// function: these take as long as the slowest rank.
inline constexpr int kEdgeDeadlines = 5;

/// Passes the watchdog's verdict to a coordinator before the watchdog ends this process. Created
/// before the watch, which calls send(). Until send_through() is called, send() does nothing.
class FinalReport {
 public:
  /// Called once. `listener` outlives the watch.
  void send_through(std::function<void(const Status& verdict)> listener) {
    listener_ = std::move(listener);
    there_.store(true);
  }
  void send(const Status& verdict) const {
    if (there_.load()) listener_(verdict);
  }

 private:
  std::function<void(const Status& verdict)> listener_;
  std::atomic<bool> there_{false};
};

/// This rank's connections to all ranks of the job. Members are destroyed in reverse order: the
/// communicator before the watch, both before MPI or the connections, and the board last, for it
/// shows which ranks have not reached the end. Readers of the board are destroyed before the board,
/// and external callers of the watch before the watch.
struct World {
  std::unique_ptr<Board> board;
  std::shared_ptr<void> reader;                // reads the board
  std::shared_ptr<void> session;               // ends MPI, or the connections, cleanly
  std::shared_ptr<collectives::TcpMesh> mesh;  // null unless the ranks met over TCP
  std::unique_ptr<collectives::Watch> watch;
  std::shared_ptr<FinalReport> final_report;  // held by the watch too
  std::shared_ptr<void> verdicts;             // passes external verdicts to the watch
  std::unique_ptr<collectives::Communicator> all;

  /// Has the watchdog end the job with `why`, if there are other ranks: for a failure of this rank
  /// that no round would report to them.
  void end_job(const Status& why) const;
};

struct WorldOptions {
  /// Points to an MPI_Comm; null: all processes that were started together, or that meet over TCP.
  const void* comm = nullptr;
  /// Where the processes meet over TCP; ignored if there is a `comm`.
  std::optional<collectives::TcpOptions> rendezvous;
  /// This process is rank `self` of `size` without connections: every other rank mirrors it
  /// (fake.h).
  struct Mirror {
    Rank self{};
    int size = 1;
  };
  std::optional<Mirror> mirror;
  /// Number of processes that the launcher says it has started, if its MPI joins them; else 1.
  /// Ignored if there is a `comm`.
  int launched = 1;
  /// Deadline of every watched wait. If a rank does not reach the start within kEdgeDeadlines
  /// deadlines, the job ends (Stuck). The same holds for the end of the job if this process started
  /// MPI. At the start, over TCP, this is an error that names the missing ranks; under MPI they are
  /// not known, and the process ends.
  Duration deadline = std::chrono::seconds(60);
  /// As WatchOptions::before_end.
  std::function<void(const Status& verdict)> before_end{};
  /// Unless empty, the rank that reports also writes the verdict to `report_dir`/report-00003.txt.
  std::string report_dir;
};

/// Fills in how the ranks join, from `settings` and the launcher of this process. Does nothing if
/// `options` has a communicator, unless the program is traced. Errors: as rendezvous_of() and
/// launched_rendezvous().
[[nodiscard]] Result<void> find_ranks(WorldOptions& options, const Settings& settings,
                                      const std::string& build);

/// Collective. Errors: Environment; over TCP also those of tcp_rendezvous().
[[nodiscard]] Result<World> join_world(const WorldOptions& options);

/// Leaves the job on purpose before the program has ended. Over TCP, peers that wait for this rank
/// learn this at once. Waits as tcp_leave() does. The world must not be used again.
void leave_world(World& world, Duration patience);

/// Collective over `members`, which include this rank: returns their own communicator, watched like
/// world.all. `id` and `name` identify the group on the board. Errors: Environment.
[[nodiscard]] Result<std::unique_ptr<collectives::Communicator>> join_group(const World& world,
                                                                            const RankSet& members,
                                                                            std::uint64_t id,
                                                                            std::string_view name);

// Worlds without a rendezvous. Called by world.cpp; defined in world_mpi.cpp or world_single.cpp.

/// True if MPI joins processes that a launcher has started; else they must meet over TCP.
[[nodiscard]] bool joins_by_mpi();
/// As join_world() and join_group(), without a rendezvous.
[[nodiscard]] Result<World> join_launched(const WorldOptions& options);
[[nodiscard]] Result<std::unique_ptr<collectives::Communicator>> join_launched_group(
    const World& world, const RankSet& members, std::uint64_t id, std::string_view name);
/// Options of the watch of `self` in any world; makes `world.final_report`.
[[nodiscard]] collectives::WatchOptions watch_options(const WorldOptions& options, Rank self,
                                                      World& world);

}  // namespace lockstep::worker
