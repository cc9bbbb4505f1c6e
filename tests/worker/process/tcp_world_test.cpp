// A job whose ranks have met over TCP: its end, and what it makes of a coordinator.
#include <chrono>
#include <future>
#include <optional>
#include <thread>

#include "running_server.h"
#include "tcp_ranks.h"
#include <gtest/gtest.h>

#include <lockstep/collectives/tcp/tcp_mesh.h>
#include <lockstep/collectives/vote.h>
#include <lockstep/coordinator/client/publisher.h>
#include <lockstep/worker/agree/process/job_publisher.h>
#include <lockstep/worker/agree/process/settings.h>
#include <lockstep/worker/agree/process/world.h>

namespace lockstep::worker::tcp_world_test {
namespace {

using namespace std::chrono_literals;
using collectives::Part;

World join(const collectives::Endpoint& at, int rank, int ranks_of_a_host, Duration deadline) {
  auto options = collectives::on_hosts(collectives::tcp_options(at, rank, 2), ranks_of_a_host);
  auto world = join_world({.rendezvous = std::move(options), .deadline = deadline});
  EXPECT_TRUE(world) << world.error().text();
  return std::move(*world);
}

struct Worlds {
  std::optional<World> first, second;
  explicit Worlds(int ranks_of_a_host, Duration deadline = 60s) {
    const collectives::Endpoint at = collectives::free_endpoint();
    const std::jthread other([&] { second.emplace(join(at, 1, ranks_of_a_host, deadline)); });
    first.emplace(join(at, 0, ranks_of_a_host, deadline));
  }
};

/// The last word of a rank comes, though its connections break and it has nothing else to do.
TEST(TcpWorld, ThatEnds_StaysUntilItsLastWordHasCome) {
  Worlds worlds(1);
  auto& [first, second] = worlds;
  for (const int socket : collectives::connected_sockets()) collectives::reset(socket);
  const Bytes last(7, std::byte{7});
  first->mesh->send(Rank{1}, kWorldGroup, Part::Kind::Payload, last);
  const std::jthread end([&] { first.reset(); });
  std::optional<collectives::TcpMesh::Message> heard;
  for (int tries = 0; tries < 1'000 && !heard; ++tries) {
    ASSERT_TRUE(second->mesh->move(std::chrono::milliseconds(5)));
    heard = second->mesh->take(Rank{0}, kWorldGroup, Part::Kind::Bare);
  }
  ASSERT_TRUE(heard);
  EXPECT_EQ(heard->bytes, last);
}

/// By shared memory a word has come when it is said.
TEST(TcpWorld, OfOneHost_EndsThoughTheOtherRankComputes) {
  Worlds worlds(2);
  const auto end = std::async(std::launch::async, [&] { worlds.first.reset(); });
  EXPECT_EQ(end.wait_for(std::chrono::milliseconds(1'500)), std::future_status::ready);
}

Settings reporting_to(const coordinator::Endpoint& at) {
  Settings settings;
  settings.coordinator = at.text();
  const coordinator::Secret secret = coordinator::test_secret();
  settings.token.assign(reinterpret_cast<const char*>(secret.data()), secret.size());
  settings.job_id = "train";
  settings.log = {"off"};
  return settings;
}

bool votes(const World& world) {
  collectives::VoteRound round(world.all->rank(), 2, collectives::Vote{});
  return static_cast<bool>(world.all->run(round));
}

/// The coordinator is told by somebody else that rank 1 is idle. Its watchdog and rank 0's know
/// that rank 1 is busy: a verdict of the coordinator would end this process.
TEST(TcpWorld, WatchdogsThatSeeAllRanks_DoNotObeyACoordinator) {
  coordinator::RunningServer server;
  Worlds worlds(2, 1s);
  auto& [first, second] = worlds;
  const Settings settings = reporting_to(server.endpoint());
  ASSERT_TRUE(publish_progress(*first, settings, Log(settings.log), "b1", ""));
  ASSERT_TRUE(publish_progress(*second, settings, Log(settings.log), "b1", ""));
  const SystemClock clock;
  const auto idle = Board::in_process(2);
  idle->seat(Rank{1}).register_process(::getpid(), host_id(), clock.now());
  auto other =
      coordinator::Publisher::start(*idle, {.coordinator = server.endpoint(),
                                            .secret = coordinator::test_secret(),
                                            .identity = {.job = "train",
                                                         .rank = Rank{1},
                                                         .size = 2,
                                                         .incarnation = coordinator::Incarnation(7),
                                                         .host = "n0",
                                                         .host_id = host_id(),
                                                         .pid = ::getpid(),
                                                         .build = "b1",
                                                         .deadline = 1s},
                                            .say = [](const std::string&) {}});
  ASSERT_TRUE(other);
  second->board->seat(Rank{1}).renew(clock.now() + 60s);
  auto vote = std::async(std::launch::async, [&] { return votes(*first); });
  EXPECT_TRUE(server.says("ACT stuck job=train: Rank 1 "));
  EXPECT_EQ(vote.wait_for(3s), std::future_status::timeout) << "the verdict comes every second";
  EXPECT_TRUE(votes(*second));
  EXPECT_TRUE(vote.get());
}

}  // namespace
}  // namespace lockstep::worker::tcp_world_test
