// Who is taken into a job and who is refused.
#include "watched_ranks.h"
#include <gtest/gtest.h>

namespace lockstep::coordinator::membership_test {
namespace {

TEST(Membership, LateRank_IsAbsentAndNamedUntilItComes) {
  WatchedRanks ranks(4);
  for (const int r : {0, 1, 3}) ASSERT_TRUE(ranks.join(r));
  ranks.quiet = RankSet::of({2});
  ranks.pass(seconds(9));
  EXPECT_TRUE(ranks.findings().empty());
  ranks.pass(seconds(1));
  ASSERT_EQ(ranks.findings().size(), 1U);
  EXPECT_EQ(ranks.findings()[0].kind, Finding::Kind::Absent);
  EXPECT_EQ(ranks.findings()[0].ranks, RankSet::of({2}));
  EXPECT_FALSE(ranks.findings()[0].act);
  ASSERT_TRUE(ranks.join(2));
  EXPECT_TRUE(ranks.findings().empty());
}

TEST(Membership, Reconnection_TakesTheRankOverFromItsEarlierConnection) {
  WatchedRanks ranks(2);
  ranks.join_all();
  const ConnectionId first = ranks.connections[1];
  const auto again = ranks.join(1);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->replaced, first);
  EXPECT_FALSE(again->restarted);
  ranks.service.closed(first, ranks.now);  // what is left of the earlier connection
  EXPECT_TRUE(ranks.findings().empty());
  EXPECT_EQ(ranks.job().membership.live(), RankSet::all(2));
}

TEST(Membership, RestartedRank_IsTakenOnceTheEarlierProcessIsGone) {
  WatchedRanks ranks(3);
  ranks.join_all();
  ranks.wait(1);
  ranks.tell_all();
  ranks.identities[1].incarnation = Incarnation(77);
  ranks.identities[1].pid = 5000;
  const ConnectionId first = ranks.connections[1];
  const auto refused = ranks.join(1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::Version);
  EXPECT_NE(refused.error().message.find("process 1001"), std::string::npos);
  EXPECT_NE(refused.error().message.find("process 5000"), std::string::npos);

  ranks.service.closed(first, ranks.now);
  const auto taken = ranks.join(1);
  ASSERT_TRUE(taken);
  EXPECT_TRUE(taken->restarted);
  EXPECT_EQ(ranks.job().membership.member({1})->restarts, 1);
  EXPECT_EQ(ranks.job().progress.seen({1}), nullptr) << "what the earlier process did is over";
  EXPECT_EQ(ranks.job().run, 1);
}

TEST(Membership, EarlierProcessOfAMachineThatDied_MakesRoomOnceSilent) {
  WatchedRanks ranks(2);
  ranks.join_all();
  ranks.identities[1].incarnation = Incarnation(77);
  ranks.now += seconds(3);
  EXPECT_FALSE(ranks.join(1));
  ranks.now += milliseconds(1);
  EXPECT_TRUE(ranks.join(1));
}

TEST(Membership, OtherBuild_IsRefusedNamingBothSides) {
  WatchedRanks ranks(4);
  ranks.identities[3].build = "b2";
  for (const int r : {0, 1, 2}) ASSERT_TRUE(ranks.join(r));
  const auto refused = ranks.join(3);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::Version);
  for (const char* part : {"rank 3 (host n0, process 1003)", "build b2", "ranks 0-2", "build b1"})
    EXPECT_NE(refused.error().message.find(part), std::string::npos) << refused.error().message;
}

TEST(Membership, OtherWorldSize_IsRefusedNamingBothSides) {
  WatchedRanks ranks(4);
  ranks.identities[3].size = 8;
  for (const int r : {0, 2}) ASSERT_TRUE(ranks.join(r));
  const auto refused = ranks.join(3);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::Version);
  EXPECT_NE(refused.error().message.find("ranks 0,2"), std::string::npos);
  EXPECT_NE(refused.error().message.find("rank 3"), std::string::npos);
}

TEST(Membership, RanksOutsideTheJob_AreRefused) {
  WatchedRanks ranks(2);
  for (const auto& [rank, size] :
       {std::pair{-1, 2}, {2, 2}, {0, 0}, {0, -1}, {0, kMostRanks + 1}}) {
    ranks.identities[0].rank = {rank};
    ranks.identities[0].size = size;
    const auto refused = ranks.join(0);
    ASSERT_FALSE(refused) << rank << " of " << size;
    EXPECT_EQ(refused.error().code, Code::BadInput);
  }
  EXPECT_TRUE(ranks.service.jobs().empty());
}

TEST(Membership, ConnectionThatHasJoined_SpeaksForNoOtherRank) {
  WatchedRanks ranks(2);
  ASSERT_TRUE(ranks.join(0));
  const auto refused = ranks.service.join(ranks.identities[1], ranks.connections[0], ranks.now);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::BadInput);
}

TEST(Service, JobThatIsStartedAgain_BeginsAnewWithAnotherBuildAndSize) {
  WatchedRanks first(4);
  first.join_all();
  for (SlotReport& report : first.reports) report.finished = true;
  first.tell_all();
  for (int r = 0; r < 4; ++r) first.close(r);
  EXPECT_TRUE(first.findings().empty()) << "a finished rank is not lost";

  first.identities[0].incarnation = Incarnation(99);
  first.identities[0].build = "b2";
  first.identities[0].size = 2;
  ASSERT_TRUE(first.join(0));
  EXPECT_EQ(first.job().run, 2);
  EXPECT_EQ(first.job().membership.size(), 2);
  EXPECT_EQ(first.job().membership.build(), "b2");
}

TEST(Service, ConnectionsThatAllBreakAndComeBack_AreTheSameRun) {
  WatchedRanks ranks(3);
  ranks.join_all();
  for (int r = 0; r < 3; ++r) ranks.close(r);
  EXPECT_EQ(ranks.findings().size(), 1U);
  ranks.now += seconds(2);
  for (int r = 0; r < 3; ++r) ASSERT_TRUE(ranks.join(r));
  EXPECT_EQ(ranks.job().run, 1);
  EXPECT_TRUE(ranks.findings().empty());
}

TEST(Service, ManyJobs_TheOneLongestOverMakesRoomAndLiveOnesNever) {
  Service service;
  Identity identity{.job = "", .size = 1, .incarnation = Incarnation(1), .host = "n", .build = "b"};
  std::uint64_t connection = 0;
  const auto join = [&](int job) {
    identity.job = "job " + std::to_string(job);
    ++connection;
    return service.join(identity, ConnectionId(connection), Instant(seconds(connection)));
  };
  for (int job = 0; job < static_cast<int>(Service::kMostJobs); ++job) ASSERT_TRUE(join(job));
  const auto refused = join(1000);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::Environment);
  for (const std::uint64_t over : {8U, 6U})
    service.closed(ConnectionId(over), Instant(seconds(100)));
  ASSERT_TRUE(join(1001));
  EXPECT_FALSE(service.jobs().contains("job 5"));
  EXPECT_TRUE(service.jobs().contains("job 7"));
  EXPECT_EQ(service.jobs().size(), Service::kMostJobs);
}

TEST(Service, TwoJobs_DoNotSeeEachOther) {
  Service service;
  Identity identity{
      .job = "a", .size = 2, .incarnation = Incarnation(1), .host = "n", .build = "b"};
  ASSERT_TRUE(service.join(identity, ConnectionId(1), seconds(1)));
  identity.job = "b";
  identity.build = "another";
  ASSERT_TRUE(service.join(identity, ConnectionId(2), seconds(1)));
  service.closed(ConnectionId(1), seconds(2));
  EXPECT_EQ(service.diagnose(service.jobs().at("a"), seconds(2)).size(), 1U);
  EXPECT_TRUE(service.diagnose(service.jobs().at("b"), seconds(2)).empty());
}

}  // namespace
}  // namespace lockstep::coordinator::membership_test
