#include <lockstep/collectives/simulated/fake.h>
#include <lockstep/worker/agree/process/world.h>

namespace lockstep::worker {

bool joins_by_mpi() { return false; }

Result<World> join_launched(const WorldOptions& options) {
  if (options.comm != nullptr)
    return environment_error(
        "This build of lockstep has no MPI, so it cannot join a communicator; build it "
        "with LOCKSTEP_WITH_MPI=ON.");
  World world;
  world.board = Board::in_process(1);
  auto watch =
      collectives::Watch::start(*world.board, Rank{0}, watch_options(options, Rank{0}, world));
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
