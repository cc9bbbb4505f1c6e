#include <cstdlib>

#include <fmt/format.h>

#include <lockstep/collectives/fake.h>
#include <lockstep/worker/launched_world.h>

namespace lockstep::worker {
namespace {

/// How many processes were started together, where the launcher says so. The environment is read
/// here, as MPI reads it itself.
int started_together() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const char* value = std::getenv(name); value != nullptr && std::atoi(value) > 1)
      return std::atoi(value);
  return 1;
}

}  // namespace

Result<World> join_launched(const WorldOptions& options) {
  if (options.comm != nullptr)
    return Status{Code::Environment,
                  "This build of lockstep has no MPI, so it cannot join a communicator; build it "
                  "with LOCKSTEP_WITH_MPI=ON.",
                  {},
                  {}};
  if (const int ranks = started_together(); ranks > 1)
    return Status{Code::Environment,
                  fmt::format("This build of lockstep has no MPI, and {} processes were started "
                              "together: each would be a job of its own. Build it with "
                              "LOCKSTEP_WITH_MPI=ON, start one process, or let them meet over TCP "
                              "(LOCKSTEP_RENDEZVOUS).",
                              ranks),
                  {},
                  {}};
  World world;
  world.board = Board::in_process(1);
  auto watch = collectives::Watch::start(*world.board, Rank{0}, watch_options(options, Rank{0}, world));
  if (!watch) return watch.error();
  world.watch = std::move(*watch);
  auto all = collectives::fake_communicator(Rank{0}, 1);
  if (!all) return all.error();
  world.all = std::move(*all);
  return world;
}

Result<std::unique_ptr<collectives::Communicator>> join_launched_group(const World&, const RankSet&,
                                                                       std::uint64_t,
                                                                       std::string_view) {
  return collectives::fake_communicator(Rank{0}, 1);
}

}  // namespace lockstep::worker
