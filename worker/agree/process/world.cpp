#include <algorithm>
#include <cstdio>
#include <utility>

#include <lockstep/collectives/simulated/fake.h>
#include <lockstep/collectives/tcp/tcp_carrier.h>
#include <lockstep/collectives/wire/encryption.h>
#include <lockstep/worker/agree/process/rendezvous.h>
#include <lockstep/worker/agree/process/report_folder.h>
#include <lockstep/worker/agree/process/world.h>

namespace lockstep::worker {
namespace {

Result<World> join_rendezvous(const WorldOptions& options) {
  collectives::TcpOptions rendezvous = *options.rendezvous;
  rendezvous.patience = kEdgeDeadlines * options.deadline;
  rendezvous.out_of_reach = options.deadline;
  if (const auto said = collectives::encryption_warning(rendezvous.rendezvous,
                                                        "what the ranks say to each other");
      rendezvous.rank == Rank{0} && !said.empty())
    std::fprintf(stderr, "lockstep: %s.\n", said.c_str());
  auto mesh = collectives::tcp_rendezvous(rendezvous);
  if (!mesh) return mesh.error();
  World world;
  world.mesh = std::move(*mesh);
  world.session = {nullptr, [over = world.mesh](void*) { collectives::tcp_finish(*over); }};
  auto board = collectives::tcp_board(*world.mesh, rendezvous.patience);
  if (!board) return board.error();
  world.board = std::move(*board);
  collectives::WatchOptions watching = watch_options(options, rendezvous.rank, world);
  watching.tell = [mesh = world.mesh](const Status& verdict) {
    collectives::tcp_tell(*mesh, verdict);
  };
  const auto carrier =
      std::make_shared<collectives::TcpCarrier>(*world.mesh, *world.board, options.deadline);
  watching.look = [carrier, mesh = world.mesh](Instant now) {
    carrier->look(now);
    return collectives::tcp_failure(*mesh);
  };
  auto watch = collectives::Watch::start(*world.board, rendezvous.rank, std::move(watching));
  if (!watch) return watch.error();
  world.watch = std::move(*watch);
  auto all = collectives::tcp_communicator(world.mesh, world.watch.get());
  if (!all) return all.error();
  world.all = std::move(*all);
  return world;
}

Result<World> join_mirrors(const WorldOptions& options) {
  World world;
  world.board = Board::in_process(1);
  auto watch =
      collectives::Watch::start(*world.board, Rank{0}, watch_options(options, Rank{0}, world));
  if (!watch) return watch.error();
  world.watch = std::move(*watch);
  auto all = collectives::fake_communicator(options.mirror->self, options.mirror->size);
  if (!all) return all.error();
  world.all = std::move(*all);
  return world;
}

Result<std::unique_ptr<collectives::Communicator>> mirrored_group(Rank self,
                                                                  const RankSet& members) {
  Rank place{};
  for (const RankSet::Run& run : members.runs())
    place.value += std::clamp(self.value - run.first, 0, run.last - run.first + 1);
  return collectives::fake_communicator(place, static_cast<int>(members.size()));
}

}  // namespace

collectives::WatchOptions watch_options(const WorldOptions& options, Rank self, World& world) {
  world.final_report = std::make_shared<FinalReport>();
  collectives::WatchOptions out;
  out.deadline = options.deadline;
  out.before_end = options.before_end;
  out.final_report = [report = world.final_report](const Status& verdict) {
    report->send(verdict);
  };
  if (options.report_dir.empty()) return out;
  remove_report(options.report_dir, self.value);
  out.report_file = report_file(options.report_dir, self.value);
  return out;
}

Result<void> find_ranks(WorldOptions& options, const Settings& settings, const std::string& build) {
  if (settings.trace) options.comm = nullptr;  // a comm's ranks are not the traced ranks
  if (options.comm != nullptr) return {};
  if (settings.trace && settings.rendezvous.empty()) {
    options.mirror = WorldOptions::Mirror{Rank{settings.rank}, settings.world_size};
    return {};
  }
  const auto launcher = launcher_from_environment();
  if (launcher && launcher->offers_mpi) options.launched = launcher->size;
  const bool by_torchrun = launcher && launcher->kind == Launcher::Kind::Torchrun;
  auto rendezvous = settings.rendezvous.empty() && (by_torchrun || !joins_by_mpi())
                        ? launched_rendezvous(settings, launcher, build)
                        : rendezvous_of(settings, build);
  if (!rendezvous) return rendezvous.error();
  options.rendezvous = *std::move(rendezvous);
  return {};
}

Result<World> join_world(const WorldOptions& options) {
  if (options.mirror) return join_mirrors(options);
  const bool by_rendezvous = options.rendezvous && options.comm == nullptr;
  return by_rendezvous ? join_rendezvous(options) : join_launched(options);
}

void World::end_job(const Status& why) const {
  if (!watch || all->size() == 1) return;
  std::fflush(nullptr);
  watch->end_job(why);
}

void leave_world(World& world, Duration patience) {
  if (world.watch) world.watch->seat().finish();
  if (world.mesh) collectives::tcp_leave(*world.mesh, patience);
}

Result<std::unique_ptr<collectives::Communicator>> join_group(const World& world,
                                                              const RankSet& members,
                                                              std::uint64_t id,
                                                              std::string_view name) {
  if (world.all->mirrors()) return mirrored_group(world.all->rank(), members);
  if (!world.mesh) return join_launched_group(world, members, id, name);
  return collectives::tcp_group(world.mesh, world.watch.get(), members, id, name);
}

}  // namespace lockstep::worker
