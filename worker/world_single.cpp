#include <lockstep/collectives/fake.h>
#include <lockstep/worker/world.h>

namespace lockstep::worker {

Result<World> join_world(const void* comm, const collectives::WatchOptions& options) {
  if (comm != nullptr)
    return Status{Code::Environment,
                  "This build of lockstep has no MPI, so it cannot join a communicator; build it "
                  "with LOCKSTEP_WITH_MPI=ON.",
                  {},
                  {}};
  World world;
  world.board = Board::in_process(1);
  auto watch = collectives::Watch::start(*world.board, Rank{0}, options);
  if (!watch) return watch.error();
  world.watch = std::move(*watch);
  auto all = collectives::fake_communicator(Rank{0}, 1);
  if (!all) return all.error();
  world.all = std::move(*all);
  return world;
}

}  // namespace lockstep::worker
