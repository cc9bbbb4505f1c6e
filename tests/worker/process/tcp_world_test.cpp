// The end of a job whose ranks have met over TCP.
#include <future>
#include <optional>
#include <thread>

#include "tcp_ranks.h"
#include <gtest/gtest.h>

#include <lockstep/collectives/tcp/tcp_mesh.h>
#include <lockstep/worker/process/world.h>

namespace lockstep::worker::tcp_world_test {
namespace {

using collectives::Part;

World join(const collectives::Endpoint& at, int rank, int ranks_of_a_host) {
  auto options = collectives::on_hosts(collectives::tcp_options(at, rank, 2), ranks_of_a_host);
  auto world = join_world({.rendezvous = std::move(options)});
  EXPECT_TRUE(world) << world.error().text();
  return std::move(*world);
}

struct Worlds {
  std::optional<World> first, second;
  explicit Worlds(int ranks_of_a_host) {
    const collectives::Endpoint at = collectives::free_endpoint();
    const std::jthread other([&] { second.emplace(join(at, 1, ranks_of_a_host)); });
    first.emplace(join(at, 0, ranks_of_a_host));
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

}  // namespace
}  // namespace lockstep::worker::tcp_world_test
