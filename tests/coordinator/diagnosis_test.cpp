// What is found wrong with a job, when, and of whom it is said.
#include <random>

#include "watched_ranks.h"
#include <gtest/gtest.h>

namespace lockstep::coordinator::diagnosis_test {
namespace {

using Kind = Finding::Kind;

bool says(const Finding& finding, std::string_view part) {
  return finding.message.find(part) != std::string::npos;
}

TEST(Diagnosis, ClosedConnection_IsNamedAtOnceAndActedOnLater) {
  WatchedRanks ranks(16);
  ranks.join_all();
  ranks.note(9, "call 6 of train_step");
  ranks.tell_all();
  ranks.close(9);
  auto found = ranks.findings();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].kind, Kind::Lost);
  EXPECT_EQ(found[0].ranks, RankSet::of({9}));
  EXPECT_FALSE(found[0].act);
  EXPECT_TRUE(says(found[0], "host n1")) << found[0].message;
  EXPECT_TRUE(says(found[0], "call 6 of train_step")) << found[0].message;
  ranks.quiet = RankSet::of({9});
  ranks.pass(seconds(9));
  EXPECT_FALSE(ranks.findings()[0].act);
  ranks.pass(seconds(1));
  EXPECT_TRUE(ranks.findings()[0].act);
}

TEST(Diagnosis, NoWord_IsNamedAfterThreeSeconds) {
  WatchedRanks ranks(4);
  ranks.join_all();
  ranks.tell_all();
  ranks.quiet = RankSet::of({1});
  ranks.pass(seconds(3));
  EXPECT_TRUE(ranks.findings().empty());
  ranks.now += milliseconds(1);
  const auto found = ranks.findings();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].kind, Kind::Silent);
  EXPECT_EQ(found[0].ranks, RankSet::of({1}));
  ranks.tell(1);
  EXPECT_TRUE(ranks.findings().empty());
}

TEST(Diagnosis, RankThatOthersWaitFor_IsNamedWithinTenSecondsWithPhaseAndLastEvent) {
  WatchedRanks ranks(16);
  ranks.join_all();
  ranks.tell_all();
  ranks.reports[9].phase = Phase::Tracing;
  ranks.note(9, "call 6 of train_step");
  for (int r = 0; r < 16; ++r)
    if (r != 9) ranks.wait(r);
  int after = 0;
  while (ranks.findings().empty() && after < 60) {
    ranks.pass(seconds(1));
    ++after;
  }
  EXPECT_LE(after, 10);
  const auto found = ranks.findings();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].kind, Kind::Stuck);
  EXPECT_EQ(found[0].ranks, RankSet::of({9}));
  EXPECT_FALSE(found[0].act);
  for (const char* part :
       {"Rank 9 (host n1)", "operation 1 (vote)", "ranks 0-8,10-15", "tracing", "call 6"})
    EXPECT_TRUE(says(found[0], part)) << part << " in " << found[0].message;
  ranks.pass(seconds(60));
  EXPECT_TRUE(ranks.findings()[0].act);
}

TEST(Diagnosis, CompileOfHalfAnHour_IsNoAlarmWhileItsLeaseIsRenewed) {
  WatchedRanks ranks(8);
  ranks.join_all();
  ranks.tell_all();
  ranks.reports[3].phase = Phase::Compiling;
  for (int r = 0; r < 8; ++r)
    if (r != 3) ranks.wait(r);
  for (int second = 0; second < 30 * 60; ++second) {
    if (second % 5 == 0) ranks.lease[3] = ranks.now + seconds(10);
    ranks.pass(seconds(1));
    ASSERT_TRUE(ranks.findings().empty()) << second << ": " << ranks.findings()[0].message;
  }
  EXPECT_EQ(ranks.operations()[0].not_in, RankSet::of({3})) << "seen all the same";
  int after = 0;  // the compiler is killed, and nobody renews
  while (ranks.findings().empty()) {
    ranks.pass(seconds(1));
    ASSERT_LE(++after, 11);
  }
  EXPECT_EQ(ranks.findings()[0].ranks, RankSet::of({3}));
  // Regression: the half hour counted, and the job was ended at once.
  EXPECT_FALSE(ranks.findings()[0].act) << ranks.findings()[0].message;
  ranks.pass(seconds(75));
  EXPECT_TRUE(ranks.findings()[0].act) << ranks.findings()[0].message;
}

TEST(Diagnosis, RankThatWaitsForAnother_IsNotBlamed) {
  WatchedRanks ranks(4);
  ranks.join_all();
  for (int r = 0; r < 4; ++r) {  // rank 2 and 3 share a group; rank 3 does not come
    ranks.reports[static_cast<std::size_t>(r)].groups = {{kWorldGroup, 0}};
    if (r >= 2) ranks.reports[static_cast<std::size_t>(r)].groups.push_back({7, 0});
  }
  ranks.tell_all();
  ranks.wait(0);
  ranks.wait(1);
  ranks.wait(2, 7, "expert");
  ranks.pass(seconds(10));
  const auto found = ranks.findings();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].kind, Kind::Stuck);
  EXPECT_EQ(found[0].ranks, RankSet::of({3}));
  const auto operations = ranks.operations();
  ASSERT_EQ(operations.size(), 2U);
  EXPECT_EQ(operations[0].in, RankSet::range({0}, {1}));
  EXPECT_EQ(operations[0].not_in, RankSet::range({2}, {3}));
  EXPECT_EQ(operations[1].in, RankSet::of({2}));
  EXPECT_EQ(operations[1].not_in, RankSet::of({3}));
  EXPECT_EQ(operations[1].text(), "operation 1 (vote of group expert)");
}

TEST(Diagnosis, RankThatHasFinished_WillNotComeAndIsNamed) {
  WatchedRanks ranks(3);
  ranks.join_all();
  ranks.reports[0].finished = true;
  ranks.wait(1);
  ranks.wait(2);
  ranks.tell_all();
  ranks.close(0);
  ranks.quiet = RankSet::of({0});
  ranks.pass(seconds(10));
  const auto found = ranks.findings();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].kind, Kind::Stuck);
  EXPECT_EQ(found[0].ranks, RankSet::of({0}));
  EXPECT_TRUE(says(found[0], "has finished")) << found[0].message;
}

TEST(Diagnosis, RankThatFinishesFirst_IsNotBlamedWhileTheOthersHaveNotReported) {
  WatchedRanks ranks(3);
  ranks.join_all();
  for (int r = 0; r < 3; ++r) ranks.wait(r);
  ranks.tell_all();
  ranks.now += milliseconds(900);
  ranks.leave(0);
  ranks.reports[0].finished = true;
  ranks.tell(0);
  ranks.close(0);
  EXPECT_TRUE(ranks.findings().empty());
}

TEST(Diagnosis, RanksInARing_AreNamedTogetherAndNobodyIsBlamed) {
  WatchedRanks ranks(5);
  ranks.join_all();
  for (const int r : {0, 1}) ranks.reports[static_cast<std::size_t>(r)].groups = {{7, 0}, {8, 0}};
  ranks.tell_all();
  ranks.wait(0, 7, "tensor");
  ranks.wait(1, 8, "data");
  for (const int r : {2, 3, 4}) ranks.wait(r);  // the world waits for both
  ranks.pass(seconds(10));
  const auto found = ranks.findings();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].kind, Kind::Ring);
  EXPECT_EQ(found[0].ranks, RankSet::range({0}, {1}));
  EXPECT_TRUE(says(found[0], "rank 0 waits in operation 1 (vote of group tensor) for rank 1"))
      << found[0].message;
  EXPECT_TRUE(says(found[0], "rank 1 waits in operation 1 (vote of group data) for rank 0"));
}

TEST(Diagnosis, OperationToWhichAllHaveCome_IsNamedWhereItDoesNotEnd) {
  WatchedRanks ranks(4);
  ranks.join_all();
  ranks.tell_all();
  for (int r = 0; r < 4; ++r) ranks.wait(r);
  ranks.pass(seconds(4));
  EXPECT_TRUE(ranks.findings().empty());
  ranks.pass(seconds(2));
  const auto found = ranks.findings();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].kind, Kind::Hung);
  EXPECT_EQ(found[0].ranks, RankSet::all(4));
}

TEST(Diagnosis, RanksInDifferentOperationsAtOnePlace_AreNamedWithWhatEachIsIn) {
  WatchedRanks ranks(3);
  ranks.join_all();
  ranks.tell_all();
  for (int r = 0; r < 3; ++r) ranks.wait(r);
  for (const int r : {0, 2})
    ranks.reports[static_cast<std::size_t>(r)].operation = OperationKind::AllReduce;
  ranks.reports[1].operation = OperationKind::Collective;
  ranks.note(0, "all_reduce f32[4] at a.py:3");
  ranks.note(1, "barrier at a.py:5");
  ranks.pass(seconds(6));
  const auto found = ranks.findings();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].kind, Kind::Hung);
  EXPECT_TRUE(says(found[0],
                   "(ranks 0,2: all_reduce, last event: all_reduce f32[4] at a.py:3; "
                   "rank 1: collective, last event: barrier at a.py:5)"))
      << found[0].message;
}

TEST(Diagnosis, RankThatWasSuspendedInAnOperation_IsSilentAndNothingElse) {
  for (const bool others_wait : {false, true}) {
    WatchedRanks ranks(4);
    ranks.join_all();
    ranks.tell_all();
    for (int r = 0; r < 4; ++r) ranks.wait(r);
    ranks.tell_all();
    ranks.quiet = RankSet::of({3});
    for (int r = 0; r < 3; ++r) others_wait ? ranks.wait(r) : ranks.leave(r);
    ranks.pass(seconds(30));
    const auto found = ranks.findings();
    ASSERT_EQ(found.size(), 1U) << found.back().message;
    EXPECT_EQ(found[0].kind, Kind::Silent);
    EXPECT_EQ(found[0].ranks, RankSet::of({3}));
  }
}

/// Regression: where the deadline is short, the coordinator acts before a rank counts as silent;
/// the last word of one that was suspended was believed until then, and ended the job.
TEST(Diagnosis, LastWordOfASuspendedRank_IsNotBelieved) {
  for (const seconds deadline : {seconds(1), seconds(2), seconds(4)}) {
    WatchedRanks ranks(16);  // two hosts
    for (Identity& identity : ranks.identities) identity.deadline = deadline;
    ranks.join_all();
    for (int r = 0; r < 16; ++r) ranks.wait(r);
    ranks.tell_all();
    ranks.quiet = RankSet::of({3});
    for (int r = 0; r < 16; ++r)
      if (r != 3) ranks.wait(r);
    for (int tenth = 0; tenth < 80; ++tenth) {
      ranks.now += milliseconds(100);
      ranks.tell_all();
      for (const Finding& finding : ranks.findings())
        EXPECT_TRUE(finding.kind == Kind::Silent || !finding.act) << finding.message;
    }
  }
}

TEST(Diagnosis, RankThatBeganAnOperationAndLeftIt_IsNamedWhereOthersStillWaitInIt) {
  WatchedRanks ranks(4);
  ranks.join_all();
  ranks.tell_all();
  for (int r = 0; r < 4; ++r) ranks.wait(r);
  ranks.leave(2);  // a vote cast ahead, which nobody moves
  ranks.pass(seconds(10));
  const auto found = ranks.findings();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].kind, Kind::Stuck);
  EXPECT_EQ(found[0].ranks, RankSet::of({2}));
  EXPECT_TRUE(says(found[0], "has begun and left operation 1")) << found[0].message;
}

TEST(Operations, ReportFromBeforeTheWait_ProvesNothing) {
  WatchedRanks ranks(2);
  ranks.join_all();
  ranks.tell_all();
  ranks.now += milliseconds(500);
  ranks.wait(0);
  ranks.tell(0);
  ASSERT_EQ(ranks.operations().size(), 1U);
  EXPECT_TRUE(ranks.operations()[0].not_in.empty());
  EXPECT_FALSE(ranks.operations()[0].recent);
  ranks.now += milliseconds(500);
  ranks.tell(1);
  EXPECT_EQ(ranks.operations()[0].not_in, RankSet::of({1}));
  EXPECT_TRUE(ranks.operations()[0].recent);
}

TEST(Operations, LostRank_IsNotInThoughItsLastReportIsOld) {
  WatchedRanks ranks(2);
  ranks.join_all();
  ranks.tell_all();
  ranks.now += milliseconds(500);
  ranks.wait(0);
  ranks.tell(0);
  ranks.close(1);
  EXPECT_EQ(ranks.operations()[0].not_in, RankSet::of({1}));
}

/// A minute in which seven ranks wait for the sixth, which says `phase`.
void lag(WatchedRanks& ranks, Phase phase) {
  for (int second = 0; second < 60; ++second) {
    for (int r = 0; r < 8; ++r) {
      if (r != 5) ranks.wait(r);
      auto& report = ranks.reports[static_cast<std::size_t>(r)];
      report.phase = r == 5 ? phase : Phase::Running;
      report.looks += 10;
      report.looks_waiting += r == 5 ? 0 : 6;
    }
    ranks.now += milliseconds(500);
    ranks.tell_all();
    ranks.now += milliseconds(100);
    ranks.tell(5);  // behind, for the others were there when it spoke
    ranks.wait(5);
    for (int r = 0; r < 8; ++r) ranks.leave(r);
    ranks.now += milliseconds(400);
    ranks.tell_all();
  }
}

TEST(Diagnosis, RankThatOthersAlwaysWaitFor_LagsAndItsReportsSayHowOften) {
  WatchedRanks ranks(8);
  ranks.join_all();
  lag(ranks, Phase::Running);
  const auto found = ranks.findings();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].kind, Kind::Lags);
  EXPECT_EQ(found[0].ranks, RankSet::of({5}));
  EXPECT_TRUE(says(found[0], "the median rank for 60 %")) << found[0].message;
  EXPECT_EQ(ranks.job().progress.seen({5})->awaited, 60U);
  EXPECT_EQ(ranks.job().progress.seen({4})->awaited, 0U);
}

TEST(Diagnosis, RankThatCompiles_DoesNotLag) {
  WatchedRanks ranks(8);
  ranks.join_all();
  lag(ranks, Phase::Compiling);
  EXPECT_TRUE(ranks.findings().empty());
  lag(ranks, Phase::Running);
  ASSERT_EQ(ranks.findings().size(), 1U) << "it still does afterwards";
}

TEST(Diagnosis, SixteenThousandRanks_AreAllNamedAndLookedAtInTime) {
  constexpr int kRanks = 16384;
  WatchedRanks ranks(kRanks);
  ranks.join_all();
  ranks.tell_all();
  std::string missing;
  for (int r = 0; r < kRanks; ++r) {
    if (r % 3 == 1)
      missing.append(missing.empty() ? "" : ",").append(std::to_string(r));
    else
      ranks.wait(r);
  }
  const auto start = std::chrono::steady_clock::now();
  for (int second = 0; second < 10; ++second) ranks.pass(seconds(1));
  const auto told = std::chrono::steady_clock::now();
  const auto found = ranks.findings();
  const auto looked = std::chrono::steady_clock::now();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].ranks.text(), missing);
  EXPECT_EQ(found[0].ranks.size(), 5461);
  const std::chrono::duration<double, std::micro> per_report = (told - start) / (10.0 * kRanks);
  const std::chrono::duration<double, std::milli> look = looked - told;
  RecordProperty("microseconds_per_report", std::to_string(per_report.count()));
  RecordProperty("milliseconds_per_look", std::to_string(look.count()));
  EXPECT_LT(per_report.count(), 50) << "a second has room for 16,384 reports";
  EXPECT_LT(look.count(), 500);
}

/// Steps of one group with random work, reports at each rank's own moment of the second, seen every
/// 100 ms. Nobody is ever accused while all move; the one that stops is named, alone, in time.
void run_until_one_stops(std::uint32_t seed) {
  std::mt19937 random(seed);
  const int size = 2 + static_cast<int>(random() % 30);
  const int stops = static_cast<int>(random() % static_cast<unsigned>(size));
  const int slowest = 1 + static_cast<int>(random() % 35);  // steps of up to 3.5 s
  WatchedRanks ranks(size);
  ranks.join_all();
  std::vector<int> busy(static_cast<std::size_t>(size), 0), moment(busy);
  for (int& m : moment) m = static_cast<int>(random() % 10);
  std::optional<Instant> stopped;
  for (int tick = 0; tick < 1200; ++tick) {
    if (tick == 600) {
      stopped = ranks.now;
      ranks.leave(stops);
    }
    int waiting = 0;
    for (int r = 0; r < size; ++r) {
      auto& left = busy[static_cast<std::size_t>(r)];
      const bool waits = ranks.reports[static_cast<std::size_t>(r)].waiting;
      if (!waits && !(stopped && r == stops) && left-- <= 0) ranks.wait(r);
      waiting += ranks.reports[static_cast<std::size_t>(r)].waiting;
    }
    for (int r = 0; waiting == size && r < size; ++r) {
      ranks.leave(r);
      ranks.progress[static_cast<std::size_t>(r)] = ranks.now;
      busy[static_cast<std::size_t>(r)] =
          static_cast<int>(random() % static_cast<unsigned>(slowest));
    }
    for (int r = 0; r < size; ++r)
      if (tick % 10 == moment[static_cast<std::size_t>(r)]) ranks.tell(r);
    for (const Finding& finding : ranks.findings()) {
      ASSERT_TRUE(stopped) << finding.message;
      ASSERT_EQ(finding.kind, Kind::Stuck) << finding.message;
      ASSERT_EQ(finding.ranks, RankSet::of({stops})) << finding.message;
      ASSERT_LE(ranks.now - *stopped, seconds(10)) << finding.message;
      return;
    }
    ranks.now += milliseconds(100);
  }
  FAIL() << "rank " << stops << " of " << size << " was never named";
}

TEST(Diagnosis, RandomJobs_OnlyTheRankThatStopsIsNamedWithinTenSeconds) {
  for (std::uint32_t seed = 0; seed < 500 && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    run_until_one_stops(seed);
  }
}

}  // namespace
}  // namespace lockstep::coordinator::diagnosis_test
