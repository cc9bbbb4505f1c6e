// The TCP backend on real sockets: all ranks in this process, driven in turns by one thread.
#include <atomic>
#include <bit>
#include <fstream>
#include <future>
#include <random>

#include "census_tree.h"
#include "conformance.h"
#include "tcp_ranks.h"
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <lockstep/collectives/tcp/tcp_mesh.h>
#include <lockstep/collectives/tcp/tcp_rendezvous.h>

namespace lockstep::collectives::tcp_conformance_test {
namespace {

class TcpAdapter final : public Adapter {
 public:
  /// `shared`: by the rings of one host.
  explicit TcpAdapter(int size, bool shared = false, Encryption encryption = Encryption::Off) {
    const auto meshes = meet(size, encryption);
    if (shared) (void)share_host(meshes);
    for (const auto& mesh : meshes) ranks_.push_back(tcp_communicator(mesh, nullptr).value());
  }
  [[nodiscard]] std::vector<Communicator*> ranks() override {
    std::vector<Communicator*> out;
    for (const auto& one : ranks_) out.push_back(one.get());
    return out;
  }
  void finish() override { collectives::finish(this->ranks()); }

 private:
  std::vector<std::unique_ptr<Communicator>> ranks_;
};

auto tcp(int size, bool shared = false, Encryption encryption = Encryption::Off) {
  return [=]() -> std::unique_ptr<Adapter> {
    return std::make_unique<TcpAdapter>(size, shared, encryption);
  };
}

/// The sum of these depends on its order.
float element(int rank, std::size_t i) {
  return rank % 2 == 0 ? 1e7F + static_cast<float>(i) : 0.3F * static_cast<float>(rank + 1);
}

TEST(TcpReduction, Floats_AreAddedInRankOrder_AllRanksHaveTheSameBits) {
  TcpAdapter adapter(5);
  constexpr std::size_t kElements = 13;  // no multiple of the ranks
  std::vector<std::vector<float>> send(5), receive(5, std::vector<float>(kElements));
  std::vector<float> expected;
  for (std::size_t i = 0; i < kElements; ++i) {
    double sum = 0;
    for (int r = 0; r < 5; ++r) sum += static_cast<double>(element(r, i));
    expected.push_back(static_cast<float>(sum));
  }
  const auto ranks = adapter.ranks();
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    for (std::size_t i = 0; i < kElements; ++i) send[r].push_back(element(static_cast<int>(r), i));
    ASSERT_TRUE(
        ranks[r]->start({.send = send[r].data(), .receive = receive[r].data(), .rows = 13}));
  }
  adapter.finish();
  for (const auto& one : receive) EXPECT_EQ(one, expected);
}

TEST(TcpCommunicator, RanksInDifferentCollectivesOrRounds_AreNamedWithWhatEachBrought) {
  {
    TcpAdapter adapter(2);
    const auto ranks = adapter.ranks();
    float one = 1, two[2] = {};
    ASSERT_TRUE(ranks[0]->start({.send = &one, .receive = two, .rows = 1}));
    ASSERT_TRUE(ranks[1]->start(
        {.kind = Collective::Kind::AllGather, .send = &one, .receive = two, .rows = 1}));
    Result<bool> done = false;
    for (int tries = 0; done && !*done && tries < 10'000; ++tries) {
      done = ranks[0]->poll();
      (void)ranks[1]->poll();
    }
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Code::Internal);
    EXPECT_NE(done.error().text().find("rank 1: all_gather_into_tensor of f32, 1 rows"),
              std::string::npos)
        << done.error().text();
  }
  TcpAdapter adapter(2);
  const auto ranks = adapter.ranks();
  VoteRound vote(Rank{0}, 2, Vote::of(1, 2, 3, 4));
  TreeRound tree(Rank{1}, 2, text_bytes("x"), join_census);
  ranks[0]->start(vote);
  ranks[1]->start(tree);
  Result<bool> done = false;
  for (int tries = 0; done && !*done && tries < 10'000; ++tries) {
    done = ranks[1]->poll();
    (void)ranks[0]->poll();
  }
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().message.find("is in a vote while rank 1 is in an exchange"),
            std::string::npos)
      << done.error().message;
}

TEST(TcpCommunicator, PeerThatHasFinished_IsNotWaitedFor) {
  for (const bool shared : {false, true}) {
    auto meshes = meet(2);
    connect_tree(meshes);
    if (shared) (void)share_host(meshes);
    const auto first = tcp_communicator(meshes[0], nullptr).value();
    if (shared) {
      // What it says goes by a ring, and so does its farewell.
      const auto second = tcp_communicator(meshes[1], nullptr).value();
      VoteRound theirs(Rank{1}, 2, Vote::of(1, 2, 3, 4)), ours(Rank{0}, 2, Vote::of(1, 2, 3, 4));
      second->start(theirs);
      first->start(ours);
      finish({first.get(), second.get()});
    }
    meshes[1].reset();
    VoteRound vote(Rank{0}, 2, Vote::of(1, 2, 3, 4));
    const auto voted = first->run(vote);
    ASSERT_FALSE(voted);
    EXPECT_EQ(voted.error().code, Code::Stuck);
    EXPECT_EQ(voted.error().message,
              "Rank 1 has finished the job and will not come to the vote, in which rank 0 waits.");
  }
}

TEST(TcpMesh, FarewellByARing_IsHeardByWhoeverSeesTheEnd) {
  auto meshes = meet(2);
  connect_tree(meshes);
  (void)share_host(meshes);
  meshes[1]->send(Rank{0}, kWorldGroup, Part::Kind::Bare, {});
  meshes[1].reset();
  for (int i = 0; i < 100; ++i) {  // as a watchdog does while this rank computes
    meshes[0]->send_progress(Rank{1}, {RankProgress{}});
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(meshes[0]->failure(), std::nullopt);
  EXPECT_TRUE(meshes[0]->finished(Rank{1}));
}

TEST(TcpCommunicator, VerdictOfOneRank_IsTheErrorOfAll) {
  auto meshes = meet(3);
  connect_tree(meshes);
  const auto first = tcp_communicator(meshes[0], nullptr).value();
  const Status verdict{Code::Stuck, "Rank 2 is suspended.", "", {{RankSet::of({2}), "stopped"}}};
  tcp_tell(*meshes[1], verdict);
  VoteRound vote(Rank{0}, 3, Vote::of(1, 2, 3, 4));
  const auto voted = first->run(vote);
  ASSERT_FALSE(voted);
  EXPECT_EQ(voted.error(), verdict);
}

/// Ranks that vote and reduce while connections break. `shared`: what they say goes by rings.
void run_while_connections_break(bool shared, int rounds, Encryption encryption = Encryption::Off) {
  constexpr int kRanks = 5;
  constexpr std::size_t kRows = 3'000;
  const auto meshes = meet(kRanks, encryption);
  if (shared) (void)share_host(meshes);
  std::atomic<int> ended{0}, through{0};
  std::vector<std::thread> threads;
  for (int r = 0; r < kRanks; ++r)
    threads.emplace_back([&, r] {
      const std::shared_ptr<void> end(nullptr, [&](void*) { ++ended; });
      const auto all = tcp_communicator(meshes[static_cast<std::size_t>(r)], nullptr).value();
      std::vector<std::int64_t> mine(kRows), sums(kRows);
      for (int i = 0; i < rounds; ++i) {
        VoteRound vote(Rank{r}, kRanks, Vote::of(1, static_cast<std::uint64_t>(i), 3, 4));
        const auto voted = all->run(vote);
        ASSERT_TRUE(voted) << "rank " << r << ", round " << i << ": " << voted.error().text();
        ASSERT_TRUE(vote.result().same_key()) << "rank " << r << ", round " << i;
        for (std::size_t k = 0; k < kRows; ++k)
          mine[k] = static_cast<std::int64_t>(k) * (r + 1) + i;
        const auto added = all->run({.dtype = DType::I64,
                                     .send = mine.data(),
                                     .receive = sums.data(),
                                     .rows = static_cast<std::int64_t>(kRows)});
        ASSERT_TRUE(added) << "rank " << r << ", round " << i << ": " << added.error().text();
        for (std::size_t k = 0; k < kRows; ++k)
          ASSERT_EQ(sums[k], static_cast<std::int64_t>(k) * 15 + 5 * i) << "round " << i;
      }
      ++through;
      while (through.load() < kRanks &&
             !testing::Test::HasFailure())  // what it said last may have to be sent again
        ASSERT_TRUE(meshes[static_cast<std::size_t>(r)]->move(std::chrono::milliseconds(1)));
    });
  std::mt19937 random(1);
  int broken = 0;
  while (ended.load() < kRanks) {
    const auto sockets = connected_sockets();
    if (!sockets.empty()) {
      reset(sockets[random() % sockets.size()]);
      ++broken;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(broken, 5);
}

TEST(TcpMesh, ConnectionsThatBreak_AreOpenedAgain_NothingIsLostOrComesTwice) {
  run_while_connections_break(false, 400);
}

/// Rank 1 does nothing at all, as if it were suspended: its system takes connections all the same.
TEST(TcpMesh, SuspendedPeerWhoseConnectionsBreak_IsNotOutOfReach) {
  const Endpoint at = free_endpoint();
  std::vector<TcpOptions> options{tcp_options(at, 0, 2), tcp_options(at, 1, 2)};
  for (TcpOptions& one : options) one.out_of_reach = std::chrono::milliseconds(500);
  const auto met = meet(options);
  ASSERT_TRUE(met[0] && met[1]);
  TcpMesh& mesh = **met[0];
  const SystemClock clock;
  const Instant until = clock.now() + std::chrono::seconds(2);
  int broken = 0;
  while (clock.now() < until || (broken < 6 && clock.now() < until + std::chrono::seconds(18))) {
    EXPECT_FALSE(mesh.take(Rank{1}, kWorldGroup, Part::Kind::Bare));
    for (int i = 0; i < 10; ++i) {
      const auto moved = mesh.move(std::chrono::milliseconds(10));
      ASSERT_TRUE(moved) << moved.error().text();
    }
    const auto sockets = connected_sockets();
    for (const int socket : sockets) reset(socket);
    broken += static_cast<int>(sockets.size());
  }
  EXPECT_GT(broken, 5);
}

/// A mesh of two, one of which listens here.
TcpMeshParts parts_of(Rank self, std::byte id) {
  TcpMeshParts out;
  out.loop->secret = tcp_secret();
  out.door = std::make_unique<TcpDoor>(*out.loop, 8);
  EXPECT_TRUE(out.door->listen({"127.0.0.1", 0}));
  out.self = self;
  out.id.fill(id);
  out.roster.resize(2);
  out.roster[static_cast<std::size_t>(self.value)].listens = {"127.0.0.1", out.door->port()};
  return out;
}

TEST(TcpMesh, PlaceOfARankThatAnotherJobHasTaken_MeansThatItIsLost) {
  TcpMeshParts theirs = parts_of(Rank{0}, std::byte{2}), ours = parts_of(Rank{1}, std::byte{1});
  ours.roster[0].listens = theirs.roster[0].listens;
  TcpMesh other(std::move(theirs), 1 << 16, std::chrono::seconds(60));
  TcpMesh mesh(std::move(ours), 1 << 16, std::chrono::seconds(60));
  const SystemClock clock;
  const Instant until = clock.now() + std::chrono::seconds(10);
  Result<void> moved;
  while (moved && clock.now() < until) {
    (void)other.move(std::chrono::milliseconds(1));
    (void)mesh.take(Rank{0}, kWorldGroup, Part::Kind::Bare);
    moved = mesh.move(std::chrono::milliseconds(1));
  }
  ASSERT_FALSE(moved);
  EXPECT_EQ(moved.error().code, Code::RankLost);
  EXPECT_NE(moved.error().message.find("a process of another job listens where it listened"),
            std::string::npos)
      << moved.error().message;
  EXPECT_TRUE(other.move()) << "the other job goes on";
}

/// Rank 1 has said something and computes now; its watchdog alone uses the mesh.
TEST(TcpMesh, WhatARankThatComputesHasSaid_ComesThoughItsConnectionBroke) {
  const auto meshes = meet(2);
  connect_tree(meshes);
  for (const int socket : connected_sockets()) reset(socket);
  const Bytes said = text_bytes("said");
  meshes[1]->send(Rank{0}, kWorldGroup, Part::Kind::Payload, said);
  const SystemClock clock;
  const Instant until = clock.now() + std::chrono::seconds(10);
  std::optional<TcpMesh::Message> heard;
  while (!heard && clock.now() < until) {
    (void)meshes[1]->take_progress();
    const auto moved = meshes[0]->move(std::chrono::milliseconds(5));
    ASSERT_TRUE(moved) << moved.error().text();
    heard = meshes[0]->take(Rank{1}, kWorldGroup, Part::Kind::Bare);
  }
  ASSERT_TRUE(heard);
  EXPECT_EQ(heard->bytes, said);
}

/// False: it took so long, on a busy machine, that rank 0 need not have stayed.
bool last_words_are_said_again() {
  // Rank 1, which takes part in the end of the job by hand.
  TcpMeshParts theirs = parts_of(Rank{1}, std::byte{1}), ours = parts_of(Rank{0}, std::byte{1});
  ours.roster[1].listens = theirs.roster[1].listens;
  TreeRound round(Rank{1}, 2, {}, [](auto, auto) { return Bytes{}; });
  const Bytes own(round.outgoing().begin(), round.outgoing().end());
  std::vector<Part::Kind> heard;
  TcpLinkPtr link;
  std::uint64_t connections = 0;
  theirs.door->on({.word =
                       [&](const TcpLinkPtr& opened, const TcpMessage&) {
                         link = opened;
                         link->on({.message = [&](const TcpMessage& said) {
                           if (const auto* part = std::get_if<Part>(&said))
                             heard.push_back(part->kind);
                         }});
                         link->send(Introduction{theirs.id, Rank{1}, 0, connections});
                         if (connections++ > 0) return;
                         link->send(Part{kWorldGroup, Part::Kind::Farewell, 0, 0, 0, {}});
                         link->send(Part{kWorldGroup, Part::Kind::Leave, own.size(), 1, 0, own});
                       },
                   .failed = {}});
  const auto run_until = [&](const std::function<bool()>& there) {
    for (int tenths = 0; tenths < 100 && !there(); ++tenths) {
      theirs.loop->io.restart();
      theirs.loop->io.run_for(std::chrono::milliseconds(100));
    }
  };
  TcpMesh mesh(std::move(ours), 1 << 16, std::chrono::seconds(60));
  const SystemClock clock;
  const Instant began = clock.now();
  auto left = std::async(std::launch::async, [&] { mesh.leave(std::chrono::seconds(20)); });
  const auto has_left = [&] {
    return left.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  };
  run_until([&] { return heard.size() >= 2; });
  EXPECT_EQ(heard, (std::vector{Part::Kind::Farewell, Part::Kind::Leave}));
  bool stays = !has_left();
  if (link) link->close();
  // For longer than who is connected has to answer: it was not connected.
  std::this_thread::sleep_for(std::chrono::milliseconds(2'100));
  heard.clear();
  run_until([&] { return !heard.empty(); });
  stays = stays && !has_left();
  if (clock.now() - began > std::chrono::seconds(4)) return false;
  EXPECT_TRUE(stays);
  EXPECT_EQ(heard, (std::vector{Part::Kind::Leave}));
  link->send(Acknowledgement{2});
  run_until(has_left);
  EXPECT_TRUE(has_left());
  EXPECT_TRUE(mesh.move());
  return true;
}

/// What a rank says last comes, though the connection breaks: it stays until that is acknowledged.
TEST(TcpMesh, LastWordsOfARankThatLeaves_AreSaidAgain) {
  for (int tries = 0; tries < 3; ++tries)
    if (last_words_are_said_again()) return;
  FAIL() << "rank 0 said nothing again, or this machine was too busy three times";
}

TEST(TcpMesh, EncryptedConnectionsThatBreak_AreOpenedAgain) {
  run_while_connections_break(false, 400, Encryption::On);
}

TEST(TcpMesh, ConnectionsThatBreakBesideRings_DisturbNothing) {
  run_while_connections_break(true, 1'000);
}

/// A connection to `port` of loopback on which `said` was written; -1 where there is none.
int stranger(std::uint16_t port, std::string_view said) {
  const int file = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(port);
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  (void)::connect(file, reinterpret_cast<const sockaddr*>(&where), sizeof where);
  (void)::send(file, said.data(), said.size(), MSG_NOSIGNAL);
  return file;
}

/// Pages of this process that are in memory, in bytes.
std::size_t resident() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  return pages * 4096;
}

/// `strangers` at each rank, all of them half-open.
void vote_beside_strangers(Encryption encryption, int strangers) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  const std::size_t before_all = resident();
  constexpr int kRanks = 3;
  const auto meshes = meet(kRanks, encryption);
  std::vector<std::thread> threads;
  std::atomic<bool> over{false};
  std::atomic<int> votes{0};
  for (int r = 0; r < kRanks; ++r)
    threads.emplace_back([&, r] {
      const auto all = tcp_communicator(meshes[static_cast<std::size_t>(r)], nullptr).value();
      for (std::uint64_t i = 0;; ++i) {
        VoteRound vote(Rank{r}, kRanks, Vote::of(over.load() ? 0 : 1, i, 3, 4));
        const auto voted = all->run(vote);
        ASSERT_TRUE(voted) << voted.error().text();
        ASSERT_TRUE(vote.result().same_key());
        ++votes;
        if (vote.result().entries() == 0) return;
      }
    });
  std::vector<int> files;
  for (int i = 0; i < strangers; ++i)
    for (int r = 0; r < kRanks; ++r) {
      const std::uint16_t port = meshes[0]->peer(Rank{r}).listens.port;
      const std::string_view said = i % 3 == 0   ? ""
                                    : i % 3 == 1 ? "GET / HTTP/1.1\r\n\r\n"
                                    : i % 6 == 2 ? "LKSC"
                                                 : "\x16\x03\x01\x3f\xff\x01";
      files.push_back(stranger(port, said));
    }
  const int before = votes.load();
  while (votes.load() < before + 300) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  // Somebody of another start of the job, who knows the secret.
  TcpMeshParts parts;
  parts.self = Rank{1};
  parts.loop->secret = secret_of_ranks(tcp_secret());
  parts.loop->encryption = encryption;
  parts.door = std::make_unique<TcpDoor>(*parts.loop, 1);
  for (std::int32_t r = 0; r < kRanks; ++r) parts.roster.push_back(meshes[1]->peer(Rank{r}));
  TcpMesh other(std::move(parts), 1 << 16, std::chrono::seconds(60));
  (void)other.take(Rank{0}, 0, Part::Kind::Bare);
  for (int i = 0; i < 20; ++i) (void)other.move(std::chrono::milliseconds(5));
  EXPECT_EQ(other.connections(), 0);
  over = true;
  for (std::thread& thread : threads) thread.join();
  for (const int file : files) ::close(file);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr std::size_t kMiB = 600;  // it keeps what is freed
#else
  constexpr std::size_t kMiB = 96;
#endif
  EXPECT_LT(resident() - std::min(resident(), before_all), kMiB << 20);
}

TEST(TcpMesh, StrangersAtTheDoor_DisturbNoVote) { vote_beside_strangers(Encryption::Off, 300); }

TEST(TcpMesh, TenThousandAtEncryptedDoors_DisturbNoVote) {
  vote_beside_strangers(Encryption::On, 3'334);
}

/// Rounds of all kinds, each of which comes to the same on all ranks, over few connections.
void expect_few_connections(int size, int per_host) {
  SCOPED_TRACE(testing::Message() << size << " ranks, " << per_host << " on each host");
  const auto meshes = meet(size, Encryption::Off, per_host);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (const auto& mesh : meshes) ranks.push_back(tcp_communicator(mesh, nullptr).value());
  std::vector<Communicator*> pointers;
  for (const auto& one : ranks) pointers.push_back(one.get());
  const auto run = [&](auto round_of, const auto& expect) {
    std::vector<decltype(round_of(*ranks[0]))> rounds;
    for (const auto& rank : ranks) rounds.push_back(round_of(*rank));
    for (int r = 0; r < size; ++r)
      ranks[static_cast<std::size_t>(r)]->start(rounds[static_cast<std::size_t>(r)]);
    finish(pointers);
    for (const auto& round : rounds) expect(round.result());
  };
  run(
      [](const Communicator& c) {
        return VoteRound(c.rank(), c.size(),
                         Vote::of(~(std::uint64_t{1} << c.rank().value), 2, 3, 4), Combine::And,
                         c.hosts());
      },
      [&](const Vote& vote) {
        EXPECT_EQ(vote.entries(), size == 64 ? 0 : ~((std::uint64_t{1} << size) - 1));
      });
  std::string in_order;
  for (int r = 0; r < size; ++r) in_order += std::to_string(r) + " ";
  run(
      [](const Communicator& c) {
        return TreeRound(
            c.rank(), c.size(), text_bytes(std::to_string(c.rank().value) + " "),
            [](auto lower, auto higher) {
              Bytes out(lower.begin(), lower.end());
              out.insert(out.end(), higher.begin(), higher.end());
              return out;
            },
            c.hosts());
      },
      [&](const Bytes& joined) { EXPECT_EQ(joined, text_bytes(in_order)); });
  for (const int root : {0, size / 3, size - 1})
    run(
        [&](const Communicator& c) {
          return BroadcastRound(c.rank(), size, Rank{root},
                                text_bytes(c.rank() == Rank{root} ? "y" : ""));
        },
        [](const Bytes& told) { EXPECT_EQ(told, text_bytes("y")); });
  const int log = std::bit_width(static_cast<unsigned>(size) - 1U);
  for (const auto& mesh : meshes) EXPECT_LE(mesh->connections(), 3 * log + 8);
  if (size == 64) {
    EXPECT_LT(meshes[0]->connections(), size / 2) << "it would be all with all";
  }
}

TEST(TcpMesh, RoundsOfManyRanks_TakeFewConnectionsEach) {
  for (const int size : {1, 2, 13, 64}) expect_few_connections(size, 0);
}

TEST(TcpMesh, RoundsOfManyHosts_TakeFewConnectionsEach_AndComeToTheSame) {
  for (const auto& [size, per_host] : {std::pair{13, 1}, {13, 3}, {48, 8}, {64, 2}})
    expect_few_connections(size, per_host);
}

TEST(TcpMesh, ProgressToldByOtherThreads_HoldsUpNoVoteAndArrives) {
  auto meshes = meet(2);
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  std::atomic<int> heard{0};
  for (int r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {  // as the watchdogs do
      RankProgress mine{.rank = Rank{r}, .state = {}, .begun = {}};
      mine.state.event = "call 3";
      while (!over.load() || heard.load() < 2) {
        meshes[static_cast<std::size_t>(r)]->send_progress(Rank{1 - r}, {mine});
        for (const auto& [rank, told] : meshes[static_cast<std::size_t>(r)]->take_progress())
          heard += rank == 1 - r && told.state.event == "call 3" ? 1 : 0;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
    threads.emplace_back([&, r] {
      const auto all = tcp_communicator(meshes[static_cast<std::size_t>(r)], nullptr).value();
      for (std::uint64_t vote = 0; vote < 300; ++vote) {
        VoteRound round(Rank{r}, 2, Vote::of(1, vote, 3, 4));
        const auto voted = all->run(round);
        ASSERT_TRUE(voted) << voted.error().text();
        ASSERT_TRUE(round.result().same_key());
      }
      if (r == 0) over = true;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(heard.load(), 2);
}

INSTANTIATE_TEST_SUITE_P(Tcp, Conformance,
                         testing::Values(tcp(1), tcp(2), tcp(3), tcp(4), tcp(5), tcp(8)));
INSTANTIATE_TEST_SUITE_P(Rings, Conformance,
                         testing::Values(tcp(2, true), tcp(3, true), tcp(4, true), tcp(5, true),
                                         tcp(8, true)));
INSTANTIATE_TEST_SUITE_P(Encrypted, Conformance,
                         testing::Values(tcp(2, false, Encryption::On),
                                         tcp(3, false, Encryption::On),
                                         tcp(5, false, Encryption::On)));

}  // namespace
}  // namespace lockstep::collectives::tcp_conformance_test
