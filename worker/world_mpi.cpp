#include <fmt/format.h>

#include <lockstep/collectives/mpi.h>
#include <lockstep/worker/world.h>

namespace lockstep::worker {

Result<World> join_world(const void* comm, Duration deadline, const std::string& report_dir) {
  auto session = collectives::MpiSession::open();
  if (!session) return session.error();
  World world;
  world.session = std::make_shared<collectives::MpiSession>(std::move(*session));
  auto board = collectives::mpi_board(comm);
  if (!board) return board.error();
  world.board = std::move(*board);
  auto plain = collectives::mpi_communicator(comm, {});
  if (!plain) return plain.error();
  const Rank self = (*plain)->rank();
  collectives::WatchOptions options;
  options.deadline = deadline;
  if (!report_dir.empty())
    options.report_file = fmt::format("{}/report-{:05}.txt", report_dir, self.value);
  auto watch = collectives::Watch::start(*world.board, self, std::move(options));
  if (!watch) return watch.error();
  world.watch = std::move(*watch);
  auto all = collectives::mpi_communicator(comm, {.watch = world.watch.get()});
  if (!all) return all.error();
  world.all = std::move(*all);
  return world;
}

Result<std::unique_ptr<collectives::Communicator>> join_group(const World& world,
                                                              const RankSet& members,
                                                              std::uint64_t id,
                                                              std::string_view name) {
  return collectives::mpi_group(*world.all, members, id, name);
}

}  // namespace lockstep::worker
