#include <filesystem>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

#include <lockstep/collectives/mpi.h>
#include <lockstep/collectives/tree.h>
#include <lockstep/collectives/vote.h>

namespace lockstep::collectives::mpi_board_test {
namespace {

using namespace std::chrono_literals;

/// The parts of a job, in the order in which they are made.
struct Parts {
  explicit Parts(Duration deadline) {
    board = mpi_board(nullptr).value();
    const Rank self = mpi_communicator(nullptr, {}).value()->rank();
    WatchOptions options;
    options.deadline = deadline;
    options.signals = false;
    watch = Watch::start(*board, self, std::move(options)).value();
    all = mpi_communicator(nullptr, {.watch = watch.get()}).value();
  }
  void vote() {
    VoteRound round(all->rank(), all->size(), Vote::of(1, 2, 3, 4));
    ASSERT_TRUE(all->run(round));
  }
  std::unique_ptr<Board> board;
  std::unique_ptr<Watch> watch;
  std::unique_ptr<Communicator> all;
};

TEST(MpiBoard, EveryRank_SeesAllOthers) {
  Parts job(60s);
  job.vote();
  const BoardSnapshot seen = job.board->snapshot();
  for (const RankState& rank : seen.ranks) EXPECT_TRUE(rank.known);
  EXPECT_EQ(seen.ranks[static_cast<std::size_t>(job.all->rank().value)].pid, ::getpid());
  EXPECT_EQ(seen.groups.at(0).members, RankSet::all(job.all->size()));
  job.vote();
}

TEST(MpiBoard, AfterTheStart_NoNameIsLeftBehind) {
  Parts job(60s);
  const std::string name = "lockstep-board-" + std::to_string(::getpid()) + "-";
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    EXPECT_EQ(entry.path().filename().string().find(name), std::string::npos);
  job.vote();
}

TEST(MpiBoard, LateRankWithALease_IsWaitedForBeyondTheDeadline) {
  Parts job(2s);
  job.vote();
  if (job.all->rank().value == 1) {
    job.watch->seat().phase(Phase::Compiling);
    for (int i = 0; i < 30; ++i) {
      job.watch->seat().renew(SystemClock().now() + 2s);
      std::this_thread::sleep_for(100ms);
    }
    job.watch->seat().phase(Phase::Running);
  }
  job.vote();
}

TEST(MpiBoard, RoundUnderWay_LivesThroughADataCollective) {
  Parts job(60s);
  VoteRound round(job.all->rank(), job.all->size(), Vote::of(1, 2, 3, 4));
  job.all->start(round);
  const float one = 1;
  float sum = 0;
  ASSERT_TRUE(job.all->run(
      Collective{.send = &one, .receive = &sum, .rows = 1, .label = "all_reduce loss"}));
  EXPECT_EQ(sum, static_cast<float>(job.all->size()));
  ASSERT_TRUE(job.all->wait());
  EXPECT_EQ(round.want().need, Round::Need::Done);
  EXPECT_EQ(round.result(), Vote::of(1, 2, 3, 4));
}

TEST(MpiGroup, OfSomeRanks_NumbersThemByPlace) {
  Parts job(60s);
  const int size = job.all->size();
  const Rank self = job.all->rank();
  if (size >= 2) {
    const RankSet members = RankSet::range({1}, {size - 1});
    const auto group = mpi_group(*job.all, members, 17, "tail");
    if (self.value == 0) {
      ASSERT_FALSE(group);
      EXPECT_EQ(group.error().code, Code::BadInput);
    } else {
      ASSERT_TRUE(group);
      EXPECT_EQ((*group)->rank().value, self.value - 1);
      EXPECT_EQ((*group)->size(), size - 1);
      VoteRound round((*group)->rank(), (*group)->size(), Vote::of(1, 2, 3, 4));
      ASSERT_TRUE((*group)->run(round));
      const BoardSnapshot seen = job.board->snapshot();
      ASSERT_NE(seen.group(17), nullptr);
      EXPECT_EQ(seen.group(17)->members, members);
      EXPECT_EQ(seen.group(17)->begun[static_cast<std::size_t>(self.value)], 1u);
    }
  }
  job.vote();
}

TEST(MpiRound, VoteMeetsExchange_EveryoneInvolvedLearnsIt) {
  const auto group = mpi_communicator(nullptr, {}).value();
  if (group->rank().value > 1) return;
  // Ranks 0 and 1 exchange directly in both rounds, whatever the size of the group.
  const auto pair = mpi_group(*group, RankSet::range({0}, {1}), 5, "pair").value();
  const Bytes payload(100);
  VoteRound vote(pair->rank(), 2, Vote::of(1, 2, 3, 4));
  TreeRound tree(pair->rank(), 2, payload,
                 [](auto low, auto) { return Bytes(low.begin(), low.end()); });
  const auto done = pair->rank().value == 0 ? pair->run(vote) : pair->run(tree);
  if (pair->rank().value == 0) {
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Code::Internal);
    EXPECT_NE(done.error().message.find("Rank 1 is in an exchange while rank 0 is in a vote"),
              std::string::npos)
        << done.error().message;
    VoteRound again(pair->rank(), 2, Vote{});
    EXPECT_FALSE(pair->run(again)) << "a failed communicator stays failed";
  } else {
    EXPECT_FALSE(done);
  }
}

}  // namespace
}  // namespace lockstep::collectives::mpi_board_test
