// The TCP backend on real sockets: all ranks in this process, driven in turns by one thread.
#include <atomic>

#include "census_tree.h"
#include "conformance.h"
#include "tcp_ranks.h"

#include <lockstep/collectives/tcp/tcp_mesh.h>

namespace lockstep::collectives::tcp_conformance_test {
namespace {

class TcpAdapter final : public Adapter {
 public:
  explicit TcpAdapter(int size) {
    for (const auto& mesh : meet(size)) ranks_.push_back(tcp_communicator(mesh, nullptr).value());
  }
  [[nodiscard]] std::vector<Communicator*> ranks() override {
    std::vector<Communicator*> out;
    for (const auto& one : ranks_) out.push_back(one.get());
    return out;
  }
  void finish() override {
    for (bool all = false; !all;) {
      all = true;
      for (const auto& one : ranks_) {
        const auto done = one->poll();
        ASSERT_TRUE(done) << done.error().text();
        all = all && *done;
      }
    }
  }

 private:
  std::vector<std::unique_ptr<Communicator>> ranks_;
};

auto tcp(int size) {
  return [size]() -> std::unique_ptr<Adapter> { return std::make_unique<TcpAdapter>(size); };
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
    float sum = element(0, i);
    for (int r = 1; r < 5; ++r) sum += element(r, i);
    expected.push_back(sum);
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
  auto meshes = meet(2);
  connect_tree(meshes);
  const auto first = tcp_communicator(meshes[0], nullptr).value();
  meshes[1].reset();
  VoteRound vote(Rank{0}, 2, Vote::of(1, 2, 3, 4));
  const auto voted = first->run(vote);
  ASSERT_FALSE(voted);
  EXPECT_EQ(voted.error().code, Code::Stuck);
  EXPECT_EQ(voted.error().message,
            "Rank 1 has finished the job and will not come to the vote, in which rank 0 waits.");
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

TEST(TcpMesh, ProgressToldByOtherThreads_HoldsUpNoVoteAndArrives) {
  auto meshes = meet(2);
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  std::atomic<int> heard{0};
  for (int r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {  // as the watchdogs do
      Progress mine;
      mine.state.event = "call 3";
      while (!over.load() || heard.load() < 2) {
        meshes[static_cast<std::size_t>(r)]->say_progress({Rank{1 - r}}, mine);
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

}  // namespace
}  // namespace lockstep::collectives::tcp_conformance_test
