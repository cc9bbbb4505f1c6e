// The end of a job whose ranks have met over TCP, each on a host of its own.
#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include "tcp_ranks.h"

#include <lockstep/collectives/tcp/tcp_mesh.h>
#include <lockstep/worker/process/world.h>

namespace lockstep::worker::tcp_world_test {
namespace {

using collectives::Part;

World join(const collectives::Endpoint& at, int rank) {
  auto options = collectives::on_hosts(collectives::tcp_options(at, rank, 2), 1);
  auto world = join_world({.rendezvous = std::move(options)});
  EXPECT_TRUE(world) << world.error().text();
  return std::move(*world);
}

/// The last word of a rank comes, though its connections break and it has nothing else to do.
TEST(TcpWorld, ThatEnds_StaysUntilItsLastWordHasCome) {
  const collectives::Endpoint at = collectives::free_endpoint();
  std::optional<World> first, second;
  std::thread other([&] { second.emplace(join(at, 1)); });
  first.emplace(join(at, 0));
  other.join();
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

}  // namespace
}  // namespace lockstep::worker::tcp_world_test
