#include <optional>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include <lockstep/collectives/call_deadline.h>
#include <lockstep/collectives/mpi.h>
#include <lockstep/collectives/wait_verdict.h>
#include <lockstep/worker/agree/process/world.h>

namespace lockstep::worker {
namespace {

double seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

/// An MPI session that ends within a time limit. Destroyed after the watch has entered the clean
/// exit.
struct Session {
  std::optional<collectives::MpiSession> mpi;
  Duration patience{0};
  Board* board = nullptr;  // outlives the session; null until it exists

  Session(collectives::MpiSession opened, Duration time) : mpi(std::move(opened)), patience(time) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() {
    const collectives::CallDeadline deadline(
        patience, [this] { return end_timed_out(); },
        [this] {
          if (board) board->end_report();
        });
    mpi.reset();
  }

  /// The verdict: ranks without a clean exit on the board have not reached the end.
  [[nodiscard]] Status end_timed_out() const {
    Status verdict{Code::Stuck, ""};
    RankSet missing;
    if (board != nullptr) {
      if (const auto earlier = board->claim_report(exit_code(verdict.code))) {
        board->await_report();
        ::_exit(*earlier);
      }
      const BoardSnapshot seen = board->snapshot();
      for (std::int32_t r = 0; r < board->size(); ++r) {
        const RankState& state = seen.ranks[static_cast<std::size_t>(r)];
        if (state.known && !state.finished) missing.insert(Rank{r});
      }
      verdict.groups = collectives::last_seen(seen, SystemClock().now());
    }
    verdict.message = fmt::format(
        "The job is over here, but MPI has not ended for {:g} s (MPI_Finalize): {} not come to its "
        "end; let every rank end its job, or let the others wait for it with a longer "
        "LOCKSTEP_DEADLINE_SECONDS.",
        seconds(patience),
        missing.empty() ? "some rank has"
                        : missing.phrase() + (missing.size() == 1 ? " has" : " have"));
    return verdict;
  }
};

Status start_timed_out(Duration patience) {
  return {
      Code::Stuck,
      fmt::format("The start has waited for {:g} s for ranks that did not come to it; before all "
                  "have come MPI does not tell which. Look for the rank that says nothing, or "
                  "give slow ones time with a longer LOCKSTEP_DEADLINE_SECONDS.",
                  seconds(patience)),
      ""};
}

/// The launcher and the MPI of this build do not match: each process is alone to its MPI.
Status not_the_launchers(int launched) {
  return environment_error(
      fmt::format("{} processes were started together, but to the MPI of this build ({}) each "
                  "of them is alone; start them with its own mpirun, or let them meet over TCP "
                  "(LOCKSTEP_RENDEZVOUS).",
                  launched, collectives::mpi_library()));
}

}  // namespace

bool joins_by_mpi() { return true; }

Result<World> join_launched(const WorldOptions& options) {
  const void* comm = options.comm;
  const Duration patience = kEdgeDeadlines * options.deadline;
  const collectives::CallDeadline deadline(patience, [=] { return start_timed_out(patience); });
  auto opened = collectives::MpiSession::open();
  if (!opened) return opened.error();
  World world;
  const auto session = std::make_shared<Session>(std::move(*opened), patience);
  world.session = session;
  if (comm == nullptr && options.launched > 1 && collectives::mpi_processes() == 1)
    return not_the_launchers(options.launched);
  auto board = collectives::mpi_board(comm);
  if (!board) return board.error();
  world.board = std::move(*board);
  session->board = world.board.get();
  auto plain = collectives::mpi_communicator(comm, {});
  if (!plain) return plain.error();
  const Rank self = (*plain)->rank();
  auto watch = collectives::Watch::start(*world.board, self, watch_options(options, self, world));
  if (!watch) return watch.error();
  world.watch = std::move(*watch);
  auto all = collectives::mpi_communicator(comm, {.watch = world.watch.get()});
  if (!all) return all.error();
  world.all = std::move(*all);
  return world;
}

Result<std::unique_ptr<collectives::Communicator>> join_launched_group(const World& world,
                                                                       const RankSet& members,
                                                                       std::uint64_t id,
                                                                       std::string_view name) {
  return collectives::mpi_group(*world.all, members, id, name);
}

}  // namespace lockstep::worker
