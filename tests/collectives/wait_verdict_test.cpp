#include <map>

#include "story.h"
#include <gtest/gtest.h>

#include <lockstep/collectives/wait_verdict.h>

namespace lockstep::collectives::wait_verdict_test {
namespace {

using namespace std::chrono_literals;

TEST(Judge, RankThatIsLate_IsStuckAfterTheDeadlineOnly) {
  Story story(4);
  for (const int r : {0, 1, 3}) story.waits(r, OperationKind::Vote, 12, 100s);
  story.did(2, OperationKind::Vote, 11, 99s);
  story.rank(2).event = "reads the next batch";
  EXPECT_FALSE(story.verdict(0, 100s, 160s));
  const auto verdict = story.verdict(0, 100s, 160s + 1ns);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->code, Code::Stuck);
  EXPECT_EQ(verdict->message,
            "Rank 2 did not come to operation 12 (vote) and made no progress for 60 s while rank 0 "
            "waited.");
  const std::vector<RankValue> expected{
      {[] {
         RankSet s = RankSet::range({0}, {1});
         s.insert({3, 3});
         return s;
       }(),
       "waits in operation 12 (vote)"},
      {RankSet::of({2}), "began operation 11 (vote), running, last event: reads the next batch"}};
  EXPECT_EQ(verdict->groups, expected);
}

TEST(Judge, RankThatWorkedLongBeforeTheWait_GetsTheWholeDeadline) {
  Story story(2);
  story.did(1, OperationKind::Vote, 1, 0s);
  story.waits(0, OperationKind::Vote, 2, 1000s);
  EXPECT_FALSE(story.verdict(0, 1000s, 1059s));
  EXPECT_TRUE(story.verdict(0, 1000s, 1061s));
}

TEST(Judge, SlowCompileWithItsLeaseRenewed_IsNoAlarmForHalfAnHour) {
  Story story(3);
  for (const int r : {0, 2}) story.waits(r, OperationKind::Vote, 5, 0s);
  story.did(1, OperationKind::Vote, 4, 0s);
  story.rank(1).phase = Phase::Compiling;
  for (Instant now = 1s; now <= 30min; now += 1s) {
    if (now.count() % Instant(20s).count() == 0) story.rank(1).lease = now + 30s;
    ASSERT_FALSE(story.verdict(0, 0s, now)) << now.count();
  }
  const Instant last = story.rank(1).lease;
  EXPECT_FALSE(story.verdict(0, 0s, last + 60s));
  EXPECT_TRUE(story.verdict(0, 0s, last + 61s));
}

TEST(Judge, ProgressOfTheLateRank_StartsTheDeadlineAnew) {
  Story story(2);
  story.waits(0, OperationKind::Vote, 9, 0s);
  story.did(1, OperationKind::Vote, 8, 50s);
  EXPECT_FALSE(story.verdict(0, 0s, 110s));
  EXPECT_TRUE(story.verdict(0, 0s, 111s));
}

TEST(Judge, OneLateRankMovesAndOneDoesNot_TheStillOneIsNamed) {
  Story story(3);
  story.waits(0, OperationKind::Vote, 9, 0s);
  story.did(1, OperationKind::Vote, 8, 99s);
  story.did(2, OperationKind::Vote, 8, 0s);
  const auto verdict = story.verdict(0, 0s, 100s);
  ASSERT_TRUE(verdict);
  EXPECT_NE(verdict->message.find("Rank 2 did not come"), std::string::npos) << verdict->message;
}

TEST(Judge, RanksInDifferentOperations_NamesBothSetsAndWhatEachDoes) {
  Story story(4);
  story.add_group(7, RankSet::all(4));
  for (const int r : {0, 1}) story.waits(r, OperationKind::AllReduce, 3, 10s);
  for (const int r : {2, 3}) story.waits(r, OperationKind::AllToAll, 1, 11s, 7);
  EXPECT_FALSE(story.verdict(0, 10s, 71s));
  const auto verdict = story.verdict(0, 10s, 72s);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->code, Code::Stuck);
  EXPECT_NE(verdict->message.find("wait for each other"), std::string::npos) << verdict->message;
  const std::vector<RankValue> expected{
      {RankSet::range({0}, {1}), "waits in operation 3 (all_reduce)"},
      {RankSet::range({2}, {3}), "waits in operation 1 (all_to_all_single of group 7)"}};
  EXPECT_EQ(verdict->groups, expected);
}

// The last word of a rank that was suspended while it waited.
TEST(Judge, RankOfAnotherHostThatIsNotHeardOf_IsNotTakenToWait) {
  Story story(3);
  story.add_group(7, RankSet::all(3));
  story.waits(0, OperationKind::Vote, 3, 10s);
  for (const int r : {1, 2}) story.waits(r, OperationKind::AllReduce, 1, 10s, 7);
  story.rank(1).carried = true;
  story.rank(1).beat = 11s;
  EXPECT_FALSE(story.verdict(0, 10s, 71s));
  story.rank(1).beat = 41s;
  const auto deadlock = story.verdict(0, 10s, 71s);
  ASSERT_TRUE(deadlock);
  EXPECT_NE(deadlock->message.find("wait for each other"), std::string::npos) << deadlock->message;
  story.rank(1).beat = 11s;
  story.rank(1).waiting = false;  // as the board shows one that has been silent for a while
  const auto silent = story.verdict(0, 10s, 71s);
  ASSERT_TRUE(silent);
  EXPECT_NE(silent->message.find("Rank 1 did not come"), std::string::npos) << silent->message;
}

// The way to a host breaks while one of its ranks runs and another has just begun to wait for it.
TEST(Judge, AllRanksOfAHostThatIsOutOfReach_AreNamed) {
  Story story(4);
  story.waits(0, OperationKind::Vote, 5, 10s);
  story.waits(1, OperationKind::Vote, 5, 10s);
  story.did(2, OperationKind::AllReduce, 3, 9s);
  story.waits(3, OperationKind::Vote, 4, 11s);
  for (const int r : {2, 3}) {
    story.rank(r).carried = true;
    story.rank(r).beat = 11s;
  }
  const auto cut = story.verdict(0, 10s, 71s);
  ASSERT_TRUE(cut);
  EXPECT_NE(cut->message.find("Ranks 2-3 did not come"), std::string::npos) << cut->message;
  const auto only_rank_2 = [&] {
    const auto alone = story.verdict(0, 10s, 71s);
    ASSERT_TRUE(alone);
    EXPECT_NE(alone->message.find("Rank 2 did not come"), std::string::npos) << alone->message;
  };
  story.rank(3).lease = 70s;  // it may compile
  only_rank_2();
  story.rank(3).lease = 0s;
  story.rank(3).beat = 70s;  // it is heard of
  only_rank_2();
}

// Stage 2 waits for stage 1, which waits for stage 0, which compiles: nobody is stuck.
TEST(Judge, WaitThroughOthersForACompile_IsNoAlarm) {
  Story story(3);
  story.add_group(1, RankSet::range({0}, {1}));
  story.add_group(2, RankSet::range({1}, {2}));
  story.waits(2, OperationKind::Broadcast, 1, 0s, 2);
  story.waits(1, OperationKind::Broadcast, 1, 0s, 1);
  story.did(0, OperationKind::Vote, 1, 0s);
  story.rank(0).lease = 1000s;
  EXPECT_FALSE(story.verdict(2, 0s, 900s));
  story.rank(0).lease = 0s;
  const auto verdict = story.verdict(2, 0s, 900s);
  ASSERT_TRUE(verdict);
  EXPECT_NE(verdict->message.find("Rank 0 did not come"), std::string::npos) << verdict->message;
}

TEST(FailureMode09, RingOverOverlappingGroups_IsNamed) {
  Story story(3);
  story.add_group(1, RankSet::range({0}, {1}));
  story.add_group(2, RankSet::range({1}, {2}));
  RankSet ends = RankSet::of({0});
  ends.insert({2, 2});
  story.add_group(3, ends);
  story.waits(0, OperationKind::AllReduce, 1, 0s, 1);
  story.waits(1, OperationKind::AllReduce, 1, 0s, 2);
  story.waits(2, OperationKind::AllReduce, 1, 0s, 3);
  const auto verdict = story.verdict(0, 0s, 61s);
  ASSERT_TRUE(verdict);
  EXPECT_NE(verdict->message.find("wait for each other"), std::string::npos) << verdict->message;
  EXPECT_EQ(verdict->groups.size(), 3u);
}

TEST(Judge, LostRank_IsReportedAtOnceEvenByARankThatDoesNotWait) {
  Story story(4);
  story.did(1, OperationKind::Vote, 4, 7s);
  story.rank(1).lost = true;
  story.rank(1).pid = 4711;
  story.rank(1).event = "call 4 of train_step";
  const auto verdict = story.verdict(0, std::nullopt, 8s);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->code, Code::RankLost);
  EXPECT_NE(verdict->message.find("Rank 1 ended without finishing the job"), std::string::npos);
  EXPECT_NE(verdict->message.find("4711"), std::string::npos);
  EXPECT_NE(verdict->message.find("call 4 of train_step"), std::string::npos) << verdict->message;
}

TEST(Judge, RankThatFinished_IsNoLoss) {
  Story story(2);
  story.rank(1).lost = story.rank(1).finished = true;
  EXPECT_FALSE(story.verdict(0, std::nullopt, 8s));
}

TEST(Judge, RankThatFinishedButIsAwaited_IsReportedAtOnce) {
  Story story(2);
  story.rank(1).finished = true;
  story.did(1, OperationKind::Vote, 3, 0s);
  story.waits(0, OperationKind::Vote, 3, 1s);
  EXPECT_FALSE(story.verdict(0, 1s, 2s)) << "it took part in vote 3 before it finished";
  story.waits(0, OperationKind::Vote, 4, 1s);
  const auto verdict = story.verdict(0, 1s, 2s);
  ASSERT_TRUE(verdict);
  EXPECT_NE(
      verdict->message.find("Rank 1 has finished the job and will not come to operation 4 (vote)"),
      std::string::npos)
      << verdict->message;
}

// As without coordination: some ranks take one more collective, the others are at the end already.
TEST(Judge, OtherKindsOfOperationAtOnePlace_AreDifferentPaths) {
  Story story(4);
  for (const int r : {0, 1}) story.waits(r, OperationKind::Vote, 5, 10s);
  for (const int r : {2, 3}) story.waits(r, OperationKind::AllReduce, 5, 11s);
  EXPECT_FALSE(story.verdict(0, 10s, 71s));
  const auto verdict = story.verdict(0, 10s, 72s);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->code, Code::Stuck);
  EXPECT_NE(verdict->message.find("different paths"), std::string::npos) << verdict->message;
  EXPECT_NE(verdict->message.find("ranks 2-3 are"), std::string::npos) << verdict->message;
  EXPECT_EQ(verdict->groups.size(), 2U);
}

TEST(Judge, AllInOneOperationAndOneSuspended_NamesIt) {
  Story story(3);
  for (int r = 0; r < 3; ++r) story.waits(r, OperationKind::AllReduce, 2, 5s);
  story.rank(1).stopped = true;
  EXPECT_FALSE(story.verdict(0, 5s, 65s));
  const auto verdict = story.verdict(0, 5s, 66s);
  ASSERT_TRUE(verdict);
  EXPECT_NE(verdict->message.find("Rank 1 is suspended"), std::string::npos) << verdict->message;
}

TEST(Judge, RanksHeldUpInAnotherGroupByASuspendedOne_AreNotNamedForIt) {
  // Found by simulation: rank 3 waits for ranks 0 and 1, which are held up in another group by rank
  // 2; rank 2 was seen to move a little later than they were, and they were blamed in its place.
  Story story(4);
  story.add_group(1, RankSet::range({0}, {2}));
  for (int r = 0; r < 2; ++r) story.waits(r, OperationKind::Exchange, 3, 5s, 1);
  story.waits(2, OperationKind::Exchange, 3, 6s, 1);
  story.rank(2).stopped = true;
  story.waits(3, OperationKind::Vote, 1, 0s);
  EXPECT_FALSE(story.verdict(3, 0s, 65s + 1ns));
  const auto verdict = story.verdict(3, 0s, 66s + 1ns);
  ASSERT_TRUE(verdict);
  EXPECT_NE(verdict->message.find("Rank 2 is suspended"), std::string::npos) << verdict->message;
}

// Found by simulation: rank 2 cast its vote of group 1 ahead, went into group 2 and was suspended
// there. To that vote all have come, so rank 0, which still waits in it, was blamed.
TEST(Judge, RankSuspendedElsewhereAfterAVoteCastAhead_IsNamedForThatVoteToo) {
  Story story(4);
  story.add_group(1, RankSet::range({0}, {2}));
  story.add_group(2, RankSet::range({2}, {3}));
  story.waits(2, OperationKind::Vote, 8, 4s, 1);
  story.waits(2, OperationKind::Vote, 1, 5s, 2);
  story.rank(2).stopped = true;
  story.waits(3, OperationKind::Vote, 1, 0s, 2);
  story.waits(0, OperationKind::Vote, 7, 6s, 1);
  story.waits(1, OperationKind::Vote, 8, 6s, 1);
  story.waits(3, OperationKind::Vote, 1, 0s);
  const auto verdict = story.verdict(3, 0s, 70s);
  ASSERT_TRUE(verdict);
  EXPECT_NE(verdict->message.find("Rank 2"), std::string::npos) << verdict->message;
  EXPECT_EQ(verdict->message.find("Rank 0"), std::string::npos) << verdict->message;
  EXPECT_EQ(verdict->message.find("0-"), std::string::npos) << verdict->message;
}

// Found by simulation: two ranks are suspended in one operation, one of them only for a while.
// Which one it is no board tells, and the one that began the operation a little earlier was named
// alone.
TEST(Judge, TwoSuspendedInOneOperation_AreNamedAsASetOnceTheLastOfThemIsStill) {
  Story story(4);
  for (const int r : {0, 1}) story.waits(r, OperationKind::Exchange, 2, 5s);
  story.waits(2, OperationKind::Exchange, 2, 6s);
  story.waits(3, OperationKind::Exchange, 2, 5s);
  for (const int r : {2, 3}) story.rank(r).stopped = true;
  EXPECT_FALSE(story.verdict(0, 5s, 65s + 1ns));
  const auto verdict = story.verdict(0, 5s, 66s + 1ns);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->message,
            "Ranks 2-3 are suspended (SIGSTOP, a debugger, a frozen container) and held up "
            "operation 2 (exchange) for 60 s while rank 0 waited.");
  const std::vector<RankValue> expected{
      {RankSet::range({0}, {1}), "waits in operation 2 (exchange)"},
      {RankSet::range({2}, {3}), "its process is stopped; last waits in operation 2 (exchange)"}};
  EXPECT_EQ(verdict->groups, expected);
}

TEST(Judge, OneLateRankIsSuspendedAndOneSilent_BothAreNamed) {
  Story story(5);
  for (const int r : {0, 1, 4}) story.waits(r, OperationKind::Vote, 9, 5s);
  for (const int r : {2, 3}) story.did(r, OperationKind::Vote, 8, 4s);
  story.rank(3).stopped = true;
  const auto verdict = story.verdict(0, 5s, 66s);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->message,
            "Ranks 2-3 held up operation 9 (vote) for 60 s while rank 0 waited: rank 3 is "
            "suspended (SIGSTOP, a debugger, a frozen container), rank 2 did not come and made no "
            "progress.");
}

TEST(Judge, Culprits_AreThoseOfTheSentence) {
  const auto culprits = [](const Story& story, Instant now) {
    const auto judged = story.judgement(0, 5s, now);
    return judged ? judged->culprits.text() : "nothing is wrong";
  };
  Story story(5);
  for (const int r : {0, 4}) story.waits(r, OperationKind::Vote, 9, 5s);
  for (const int r : {1, 2, 3}) story.did(r, OperationKind::Vote, 8, 4s);
  story.rank(1).stopped = true;
  EXPECT_EQ(culprits(story, 65s), "nothing is wrong");
  EXPECT_EQ(culprits(story, 66s), "1-3") << "suspended and silent";
  story.rank(3).finished = true;
  EXPECT_EQ(culprits(story, 66s), "3") << "will not come";
  story.rank(2).lost = true;
  EXPECT_EQ(culprits(story, 6s), "2") << "gone";
  Story together(2);
  for (const int r : {0, 1}) together.waits(r, OperationKind::Vote, 9, 5s);
  EXPECT_EQ(culprits(together, 66s), "") << "all have come";
}

// The suspended one has come and waits for the late one as all others do.
TEST(Judge, ASuspendedRankThatHasComeToWaitForASilentOne_IsNotNamedForIt) {
  Story story(3);
  for (const int r : {0, 1}) story.waits(r, OperationKind::Vote, 9, 5s);
  story.rank(1).stopped = true;
  story.did(2, OperationKind::Vote, 8, 7s);
  EXPECT_FALSE(story.verdict(0, 5s, 67s));
  const auto verdict = story.verdict(0, 5s, 67s + 1ns);
  ASSERT_TRUE(verdict);
  EXPECT_NE(verdict->message.find("Rank 2 did not come"), std::string::npos) << verdict->message;
  EXPECT_NE(verdict->groups[1].value.find("stopped"), std::string::npos);
}

TEST(Judge, ASuspendedRankThatWaitedLongForTheLastToCome_GetsTheWholeDeadlineFromThen) {
  Story story(3);
  for (const int r : {0, 1}) story.waits(r, OperationKind::Vote, 9, 0s);
  story.rank(1).stopped = true;
  story.did(2, OperationKind::Vote, 8, 0s);
  story.rank(2).lease = 500s;
  EXPECT_FALSE(story.verdict(0, 0s, 500s));
  story.waits(2, OperationKind::Vote, 9, 500s);
  story.rank(2).lease = 0s;
  EXPECT_FALSE(story.verdict(0, 0s, 560s));
  EXPECT_TRUE(story.verdict(0, 0s, 561s));
}

TEST(Judge, LastRankArrivesJustBeforeTheDeadline_IsNoAlarm) {
  Story story(2);
  story.waits(0, OperationKind::AllReduce, 2, 0s);
  story.waits(1, OperationKind::AllReduce, 2, 60s);
  EXPECT_FALSE(story.verdict(0, 0s, 61s));
}

TEST(Judge, NobodyWaits_NothingIsWrong) {
  Story story(2);
  EXPECT_FALSE(story.verdict(0, std::nullopt, 100h));
}

}  // namespace
}  // namespace lockstep::collectives::wait_verdict_test
