// How a process joins the others of its job: MPI where it is built in, else a world of one rank.
// Two implementations, switched as whole files: world_mpi.cpp, world_single.cpp.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <lockstep/collectives/communicator.h>
#include <lockstep/collectives/watch.h>

namespace lockstep::worker {

/// Starting and ending MPI takes as long as the last rank does: these waits get so many deadlines.
inline constexpr int kEdgeDeadlines = 5;

/// All ranks of the job as seen from this one. Members go in reverse order: the communicator before
/// the watch, both before MPI, and the board last, for it shows who has not come to the end. Before
/// the board goes what reads it to the last, and before the watch what speaks to it from outside,
/// where there are such things.
struct World {
  std::unique_ptr<Board> board;
  std::shared_ptr<void> reader;
  std::shared_ptr<void> session;
  std::unique_ptr<collectives::Watch> watch;
  std::shared_ptr<void> verdicts;
  std::unique_ptr<collectives::Communicator> all;
};

/// Collective. `comm` points to an MPI_Comm; null: all processes that were started together. Waits
/// are watched with `deadline`; a verdict is also written to `report_dir`/report-00003.txt by the
/// rank that reports, unless `report_dir` is empty. Where a rank does not come within
/// kEdgeDeadlines deadlines, to the start or, where this process started MPI, to its end, the
/// process leaves with a report (Stuck); at the start nobody knows which rank it is.
/// Errors: Environment.
[[nodiscard]] Result<World> join_world(const void* comm, Duration deadline,
                                       const std::string& report_dir);

/// Collective over `members`, of which this rank is one: their own communicator, watched like
/// world.all. `id` and `name` are the group's on the board. Errors: Environment.
[[nodiscard]] Result<std::unique_ptr<collectives::Communicator>> join_group(const World& world,
                                                                            const RankSet& members,
                                                                            std::uint64_t id,
                                                                            std::string_view name);

}  // namespace lockstep::worker
