// The beginning of an emulated NCCL communicator: who does not come, does not fit, is not there.
#include <future>

#include "nccl_ranks.h"
#include <gtest/gtest.h>

namespace lockstep::collectives::nccl_connect_test {
namespace {

using namespace std::chrono_literals;

/// What connecting alone ends with, for a communicator of `size`.
Status alone(int size, const NcclId& id) {
  auto connected = connect_nccl(options_of(0, size, id, 100ms));
  return connected ? Status{} : connected.error();
}

TEST(NcclConnect, Name_IsTheLibrarysVersion) {
  EXPECT_EQ(nccl_name(Rank{0}).value().rfind("NCCL 2.", 0), 0u);
  auto ranks = connect_ranks(1);
  EXPECT_EQ(ranks.at(0)->name(), nccl_name(Rank{0}).value());
}

TEST(NcclConnect, RankThatNeverComes_IsADeadlineWithCallRankAndDevice) {
  const Status status = alone(2, nccl_unique_id(Rank{0}).value());
  EXPECT_EQ(status.code, Code::Stuck);
  EXPECT_EQ(status.message,
            "ncclCommInitRankConfig has not ended on rank 0's emulated device for 0.1 s: not all 2 "
            "ranks have come to it, or their devices do not reach each other");
}

TEST(NcclConnect, RankThatIsSilent_HoldsUpAll) {
  const Told told("EMULATED_NCCL_SILENT_RANK", "1");
  const NcclId id = nccl_unique_id(Rank{0}).value();
  for (const Status& status : at_once(3, [&](int rank) {
         auto connected = connect_nccl(options_of(rank, 3, id, 200ms));
         return connected ? Status{} : connected.error();
       }))
    EXPECT_TRUE(status.code == Code::Stuck || status.code == Code::RankLost) << status.text();
}

TEST(NcclConnect, IdsOfDifferentCommunicators_NobodyMeets) {
  for (const Status& status : at_once(2, [](int rank) {
         auto connected =
             connect_nccl(options_of(rank, 2, nccl_unique_id(Rank{rank}).value(), 200ms));
         return connected ? Status{} : connected.error();
       }))
    EXPECT_EQ(status.code, Code::Stuck) << status.text();
}

TEST(NcclConnect, IdThatIsNone_IsAnErrorOfTheCall) {
  const Status status = alone(2, NcclId{'n', 'o', 'n', 'e'});
  EXPECT_EQ(status.code, Code::Environment);
  EXPECT_TRUE(has(status,
                  "ncclCommInitRankConfig failed on rank 0's emulated device: unhandled "
                  "system error (2), NCCL says: no rank listens"))
      << status.message;
}

TEST(NcclConnect, RankThatIsToldToGiveUp_DoesSoSoon) {
  const Told told("EMULATED_NCCL_SILENT_RANK", "0");
  int asked = 0;
  auto waiting = options_of(0, 2, nccl_unique_id(Rank{0}).value(), 20s);
  waiting.give_up = [&] { return ++asked == 5; };
  const auto connected = connect_nccl(waiting);
  ASSERT_FALSE(connected);
  EXPECT_EQ(connected.error().code, Code::Gone);
  EXPECT_EQ(connected.error().message,
            "ncclCommInitRankConfig gave up on rank 0's emulated device, as another rank has");
  EXPECT_EQ(asked, 5);
}

TEST(NcclConnect, OnceItHasBegun_NobodyIsAskedToGiveUp) {
  int asked_after = 0;
  bool begun = false;
  auto ranks = connect_ranks(2, [&](NcclOptions& o) {
    if (o.rank == 0) o.give_up = [&] { return asked_after += begun ? 1 : 0, begun; };
  });
  begun = true;
  Sum sums[2];
  for (std::size_t r = 0; r < 2; ++r) EXPECT_TRUE(ranks[r]->start(sums[r].collective()));
  EXPECT_TRUE(launches_end());
  disconnect(ranks);
  EXPECT_EQ(asked_after, 0);
}

TEST(NcclConnect, SizesThatDiffer_AreAnErrorOnAll) {
  const NcclId id = nccl_unique_id(Rank{0}).value();
  for (const Status& status : at_once(2, [&](int rank) {
         auto connected = connect_nccl(options_of(rank, rank + 2, id, 20s));
         return connected ? Status{} : connected.error();
       }))
    EXPECT_EQ(status.code, Code::Internal) << status.text();
}

TEST(NcclConnect, RankOutsideItsGroup_IsRefused) {
  auto connected = connect_nccl(options_of(2, 2, {}, 20s));
  ASSERT_FALSE(connected);
  EXPECT_EQ(connected.error().code, Code::BadInput);
}

TEST(NcclConnect, DeviceThatIsNotCurrent_IsSaid) {
  auto other = options_of(0, 1, nccl_unique_id(Rank{0}).value(), 20s);
  other.ordinal = 3;
  const auto connected = connect_nccl(other);
  ASSERT_FALSE(connected);
  EXPECT_TRUE(has(connected.error(), "whose ordinal is 3: its context was not current"))
      << connected.error().message;
}

/// A watch for each rank of one board; verdicts come here.
class Watched {
 public:
  explicit Watched(int size)
      : board(Board::in_process(size)), told(static_cast<std::size_t>(size)) {
    entry = board->entry(77, RankSet::all(size), "devices");
    for (int r = 0; r < size; ++r) {
      WatchOptions options;
      options.deadline = 150ms;
      options.signals = false;
      auto& promise = told[static_cast<std::size_t>(r)];
      options.on_verdict = [&promise](const Status& status, int) { promise.set_value(status); };
      watches.push_back(Watch::start(*board, Rank{r}, std::move(options)).value());
    }
  }
  [[nodiscard]] NcclOptions watch(NcclOptions options) const {
    options.watch = watches[static_cast<std::size_t>(options.rank)].get();
    options.board_entry = entry;
    return options;
  }
  std::unique_ptr<Board> board;
  std::vector<std::promise<Status>> told;
  int entry = -1;
  std::vector<std::unique_ptr<Watch>> watches;
};

TEST(NcclConnect, RankThatNeverComes_IsNamedByTheWatchdogAndInTheTable) {
  Watched job(3);
  const NcclId id = nccl_unique_id(Rank{0}).value();
  const auto connected = connect_nccl(job.watch(options_of(0, 3, id, 8s)));
  ASSERT_FALSE(connected);
  ASSERT_EQ(connected.error().groups.size(), 2u) << connected.error().text();
  EXPECT_EQ(connected.error().groups[1].ranks.text(), "1-2");
  EXPECT_EQ(job.board->state(Rank{0}).event.rfind("ncclCommInitRankConfig has not ended on", 0),
            0u);
  auto verdict = job.told[0].get_future();
  ASSERT_EQ(verdict.wait_for(0s), std::future_status::ready);
  const Status said = verdict.get();
  EXPECT_EQ(said.code, Code::Stuck);
  EXPECT_TRUE(has(said, "Ranks 1-2 did not come to operation 1 (exchange of group devices)"))
      << said.message;
}

TEST(NcclConnect, Operations_AreCountedOnTheBoardEmptyOnesToo) {
  Watched job(2);
  auto ranks = connect_ranks(2, [&](NcclOptions& o) { o = job.watch(o); });
  Sum sums[2];
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_TRUE(ranks[r]->start(sums[r].collective(0)));
    EXPECT_TRUE(ranks[r]->start(sums[r].collective(1)));
  }
  EXPECT_TRUE(launches_end());
  for (int r = 0; r < 2; ++r) {
    const RankState state = job.board->state(Rank{r});
    EXPECT_EQ(state.ordinal, 3u);  // with its beginning
    EXPECT_EQ(state.operation, OperationKind::AllReduce);
    EXPECT_EQ(state.group_name, "devices");
    EXPECT_EQ(state.event, "step.cpp:7");
  }
  disconnect(ranks);
}

}  // namespace
}  // namespace lockstep::collectives::nccl_connect_test
