#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/collectives/base/board.h>

namespace lockstep::board_test {
namespace {

using namespace std::chrono_literals;

TEST(Board, FreshBoard_ShowsNobody) {
  const auto board = Board::in_process(3);
  const BoardSnapshot seen = board->snapshot();
  ASSERT_EQ(seen.ranks.size(), 3u);
  EXPECT_FALSE(seen.ranks[0].known);
  EXPECT_TRUE(seen.groups.empty());
}

TEST(Board, WhatASeatWrites_IsRead) {
  const auto board = Board::in_process(2);
  Seat seat = board->seat(Rank{1});
  seat.register_process(42, 7, 1s);
  const int entry = board->entry(kWorldGroup, RankSet::all(2));
  seat.begin(OperationKind::AllToAll, entry, 5, 3s);
  seat.note("call 12 of train_step", 4s);
  seat.phase(Phase::Compiling);
  seat.renew(9s);
  seat.wait(true);
  const BoardSnapshot seen = board->snapshot();
  const RankState& state = seen.ranks[1];
  EXPECT_TRUE(state.known);
  EXPECT_EQ(state.pid, 42);
  EXPECT_EQ(state.host, 7u);
  EXPECT_EQ(state.begun, 1u);
  EXPECT_EQ(state.operation, OperationKind::AllToAll);
  EXPECT_EQ(state.ordinal, 5u);
  EXPECT_EQ(state.group, kWorldGroup);
  EXPECT_EQ(state.event, "call 12 of train_step");
  EXPECT_EQ(state.phase, Phase::Compiling);
  EXPECT_EQ(state.lease, 9s);
  EXPECT_EQ(state.progress, 4s);
  EXPECT_TRUE(state.waiting);
  EXPECT_FALSE(state.finished);
  ASSERT_EQ(seen.groups.size(), 1u);
  EXPECT_EQ(seen.groups[0].members, RankSet::all(2));
  EXPECT_EQ(seen.groups[0].begun, (std::vector<std::uint64_t>{0, 5}));
  seat.finish();
  EXPECT_TRUE(board->finished(Rank{1}));
}

TEST(Board, SlotOfAnotherHost_IsShownAsItWasTold) {
  const auto there = Board::in_process(3), here = Board::in_process(3);
  Seat seat = there->seat(Rank{2});
  seat.register_process(42, 7, 1s);
  const int pair = there->entry(9, RankSet::range({1}, {2}), "pair");
  const int world = there->entry(kWorldGroup, RankSet::all(3));
  seat.begin(OperationKind::Vote, pair, 4, 2s);
  seat.begin(OperationKind::AllReduce, world, 8, 3s);
  seat.note("call 3", 4s);
  seat.renew(60s);
  seat.wait(true);
  (void)here->entry(kWorldGroup, RankSet::all(3));
  here->carry(Rank{2}, there->state(Rank{2}), there->begun(Rank{2}), 7);
  RankState told = there->state(Rank{2});
  const RankState shown = here->state(Rank{2});
  EXPECT_TRUE(shown.known && shown.carried && shown.waiting);
  EXPECT_EQ(describe(shown, 5s), describe(told, 5s));
  EXPECT_EQ(shown.lease, 60s);
  EXPECT_EQ(shown.progress, 4s);
  EXPECT_EQ(here->process(Rank{2}).host, 7U);
  const BoardSnapshot seen = here->snapshot();
  ASSERT_EQ(seen.groups.size(), 1U) << "the other group is none of this host's";
  EXPECT_EQ(seen.groups[0].begun, (std::vector<std::uint64_t>{0, 0, 8}));
}

TEST(Board, OperationsOfOneRank_AreThoseOfItsGroups) {
  const auto board = Board::in_process(3);
  Seat seat = board->seat(Rank{1});
  const int world = board->entry(kWorldGroup, RankSet::all(3));
  const int pair = board->entry(9, RankSet::range({1}, {2}));
  seat.begin(OperationKind::Vote, world, 4, 1s);
  seat.begin(OperationKind::Vote, pair, 2, 1s);
  const auto begun = board->begun(Rank{1});
  ASSERT_EQ(begun.size(), 2u);
  EXPECT_EQ(begun[0].group, kWorldGroup);
  EXPECT_EQ(begun[0].operations, 4u);
  EXPECT_EQ(begun[1].group, 9u);
  EXPECT_EQ(begun[1].operations, 2u);
  EXPECT_EQ(board->begun(Rank{0}).size(), 1u) << "no member of the pair";
  EXPECT_EQ(board->begun(Rank{2})[1].operations, 0u);
}

TEST(Board, LongEvent_IsCut) {
  const auto board = Board::in_process(1);
  board->seat(Rank{0}).note(std::string(200, 'x'), 1s);
  EXPECT_EQ(board->snapshot().ranks[0].event, std::string(kEventBytes, 'x'));
}

TEST(Board, MoreGroupsThanEntries_LaterOnesGetNone) {
  const auto board = Board::in_process(4);
  for (std::size_t g = 0; g < kBoardGroups; ++g)
    EXPECT_EQ(board->entry(g, RankSet::all(2)), static_cast<int>(g));
  EXPECT_EQ(board->entry(999, RankSet::all(4)), -1);
  EXPECT_EQ(board->entry(3, RankSet::all(2)), 3);
  Seat seat = board->seat(Rank{0});
  seat.begin(OperationKind::Vote, -1, 1, 1s);
  EXPECT_EQ(board->snapshot().group(board->snapshot().ranks[0].group), nullptr);
}

TEST(Board, EventRewrittenWhileItIsRead_IsNeverMixed) {
  const auto board = Board::in_process(1);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    Seat seat = board->seat(Rank{0});
    for (int i = 0; !stop; ++i)
      seat.note(std::string(kEventBytes, static_cast<char>('a' + i % 26)), 1s);
  });
  for (int i = 0; i < 20'000; ++i) {
    const std::string event = board->state(Rank{0}).event;
    if (event.empty() || event == "(being written)") continue;
    ASSERT_EQ(event, std::string(kEventBytes, event[0]));
  }
  stop = true;
  writer.join();
}

TEST(Board, FirstToClaimTheReport_WritesIt) {
  const auto board = Board::in_process(2);
  EXPECT_FALSE(board->claim_report(4));
  EXPECT_EQ(board->claim_report(5), 4);
}

TEST(Board, SharedBetweenProcesses_LeavesNoNameBehind) {
  std::string name;
  const auto board = Board::create(2, name).value();
  const pid_t child = ::fork();
  if (child == 0) {
    auto theirs = Board::open(name, 2);
    if (!theirs) ::_exit(1);
    (*theirs)->seat(Rank{1}).note("from the other process", 1s);
    ::_exit(0);
  }
  int status = 1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  Board::unlink(name);
  EXPECT_EQ(board->state(Rank{1}).event, "from the other process");
  const auto gone = Board::open(name, 2);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, Code::Environment);
}

TEST(Board, OfAnotherSize_IsRefused) {
  std::string name;
  const auto board = Board::create(4, name).value();
  EXPECT_FALSE(Board::open(name, 2));
  EXPECT_FALSE(Board::open(name, 4096));
  Board::unlink(name);
}

// Measured at about 10 ns; the bound leaves room for sanitizers and busy machines.
TEST(Board, WritingAnEvent_IsCheap) {
  const auto board = Board::in_process(1);
  Seat seat = board->seat(Rank{0});
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 100'000; ++i) seat.note("call 12 of train_step", Instant(i));
  const auto each = (std::chrono::steady_clock::now() - begin) / 100'000;
  RecordProperty("nanoseconds", static_cast<int>(each.count()));
  EXPECT_LT(each, 2us);
}

}  // namespace
}  // namespace lockstep::board_test
