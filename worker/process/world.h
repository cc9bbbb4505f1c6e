// How a process joins the others of its job: over TCP where it is told where they meet; else MPI
// where it is built in, or a world of one rank. The latter two are switched as whole files:
// world_mpi.cpp, world_single.cpp.
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

/// Starting and ending a job takes as long as the last rank does, and so does a user's function
/// that is traced: these waits get so many deadlines.
inline constexpr int kEdgeDeadlines = 5;

/// The watchdog's report to a coordinator before it ends this process. Created before the watch,
/// which calls send(); delivered from send_through() on.
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

/// All ranks of the job as seen from this one. Members go in reverse order: the communicator before
/// the watch, both before MPI or the connections, and the board last, for it shows who has not come
/// to the end. Readers of the board are destroyed before the board, and external callers of the
/// watch before the watch.
struct World {
  std::unique_ptr<Board> board;
  std::shared_ptr<void> reader;
  std::shared_ptr<void> session;               // of MPI, or of the connections: their clean end
  std::shared_ptr<collectives::TcpMesh> mesh;  // where the ranks have met over TCP
  std::unique_ptr<collectives::Watch> watch;
  std::shared_ptr<FinalReport> final_report;  // held by the watch too
  std::shared_ptr<void> verdicts;
  std::unique_ptr<collectives::Communicator> all;

  /// This rank cannot go on as the others do, and there is no round in which they would hear of
  /// it: the watchdog ends the job with `why`, where there are others.
  void end_job(const Status& why) const;
};

struct WorldOptions {
  /// Points to an MPI_Comm; null: all processes that were started together, or that meet.
  const void* comm = nullptr;
  /// Where the processes meet, if no launcher has started them; goes unused where there is a
  /// `comm`.
  std::optional<collectives::TcpOptions> rendezvous;
  /// This process is rank `self` of `size`, alone: every other rank mirrors it (fake.h). Then the
  /// others are not looked for.
  struct Mirror {
    Rank self{};
    int size = 1;
  };
  std::optional<Mirror> mirror;
  /// How many processes this one's launcher says that it has started; looked at where MPI is to
  /// join them all.
  int launched = 1;
  /// Of every watched wait. Where a rank does not come within kEdgeDeadlines of them to the start,
  /// or, where this process started MPI, to its end, the job is over (Stuck); only over TCP is it
  /// known who has not come to the start, and only there is that an error rather than the end of
  /// the process.
  Duration deadline = std::chrono::seconds(60);
  /// As WatchOptions::before_end.
  std::function<void(const Status& verdict)> before_end{};
  /// A verdict is also written to `report_dir`/report-00003.txt by the rank that reports, unless
  /// empty.
  std::string report_dir;
};

/// Fills in how the ranks come together, as `settings` and the launcher of this process say; where
/// `options` has a communicator there is nothing to find, unless the program is traced. Errors: as
/// rendezvous_of() and launched_rendezvous().
[[nodiscard]] Result<void> find_ranks(WorldOptions& options, const Settings& settings,
                                      const std::string& build);

/// Collective. Errors: Environment; over TCP also those of tcp_rendezvous().
[[nodiscard]] Result<World> join_world(const WorldOptions& options);

/// The end of this rank, in the middle of its program and as planned: whoever waits for it is told
/// at once. Waits as tcp_leave() does. The world is not used again.
void leave_world(World& world, Duration patience);

/// Collective over `members`, of which this rank is one: their own communicator, watched like
/// world.all. `id` and `name` are the group's on the board. Errors: Environment.
[[nodiscard]] Result<std::unique_ptr<collectives::Communicator>> join_group(const World& world,
                                                                            const RankSet& members,
                                                                            std::uint64_t id,
                                                                            std::string_view name);

// The worlds of processes that a launcher started, or that are alone: for world.cpp, in
// world_mpi.cpp or world_single.cpp.

/// Whether processes that a launcher has started are joined by MPI; else they have to meet.
[[nodiscard]] bool joins_by_mpi();
/// As join_world() and join_group(), without a rendezvous.
[[nodiscard]] Result<World> join_launched(const WorldOptions& options);
[[nodiscard]] Result<std::unique_ptr<collectives::Communicator>> join_launched_group(
    const World& world, const RankSet& members, std::uint64_t id, std::string_view name);
/// What the watch of `self` is told, of every world; makes the last words of `world`.
[[nodiscard]] collectives::WatchOptions watch_options(const WorldOptions& options, Rank self,
                                                      World& world);

}  // namespace lockstep::worker
