// When a job is ended from outside, and when not.
#include "watched_ranks.h"
#include <gtest/gtest.h>

#include <lockstep/coordinator/documents/headline.h>

namespace lockstep::coordinator::job_verdict_test {
namespace {

WatchedRanks job_of(int size, seconds deadline, int hosts = 1) {
  WatchedRanks ranks(size);
  for (Identity& identity : ranks.identities) {
    identity.deadline = deadline;
    identity.host_id = static_cast<std::uint64_t>(identity.rank.value % hosts);
  }
  ranks.join_all();
  ranks.tell_all();
  return ranks;
}
std::optional<JobVerdict> verdict(const WatchedRanks& ranks) {
  return ranks.service.verdict(ranks.job(), ranks.now);
}

TEST(JobVerdict, RankThatOthersWaitFor_EndsTheJobBetweenHostsBeforeTheirWatchdogs) {
  for (const int hosts : {1, 2}) {
    WatchedRanks ranks = job_of(4, seconds(40), hosts);
    for (const int r : {0, 1, 3}) ranks.wait(r);
    const seconds act = hosts == 1 ? seconds(50) : seconds(30);
    ranks.pass(act - seconds(1));
    EXPECT_FALSE(verdict(ranks)) << hosts;
    ranks.pass(seconds(3));
    ASSERT_TRUE(verdict(ranks)) << hosts;
    EXPECT_EQ(verdict(ranks)->code, Code::Stuck);
    EXPECT_NE(verdict(ranks)->message.find("Rank 2 "), std::string::npos)
        << verdict(ranks)->message;
    ranks.leave(0), ranks.leave(1), ranks.leave(3);
    ranks.wait(2);
    ranks.leave(2);
    ranks.tell_all();
    EXPECT_FALSE(verdict(ranks)) << "it has come";
  }
}

TEST(JobVerdict, JobThatItsRanksEndThemselves_EndsWithTheirsUntilAnotherRunBegins) {
  WatchedRanks ranks = job_of(4, seconds(40));
  const Ending first{Code::Stuck, "Rank 2 has shown no progress for 40 s."};
  ranks.service.ending(ranks.connections.at(1), first);
  ranks.service.ending(ranks.connections.at(3), {Code::RankLost, "Rank 1 has left."});
  for (int r = 0; r < 4; ++r) ranks.close(r);
  ASSERT_TRUE(verdict(ranks));
  EXPECT_EQ(*verdict(ranks), (JobVerdict{first.code, first.message}))
      << "the losses follow from it";
  const Headline stands =
      headline(ranks.job(), ranks.findings(), ranks.operations(), ranks.now + seconds(100));
  EXPECT_EQ(stands.word, Headline::Word::Stuck);
  EXPECT_EQ(stands.sentence, first.message);
  for (Identity& identity : ranks.identities)
    identity.incarnation = Incarnation(static_cast<std::uint64_t>(identity.incarnation) + 10);
  ranks.join_all();
  EXPECT_FALSE(verdict(ranks)) << "of the run before";
}

TEST(JobVerdict, RankThatComesBack_TakesTheEndingBack) {
  WatchedRanks ranks = job_of(2, seconds(40));
  ranks.service.ending(ranks.connections.at(0), {Code::Gone, "Rank 0 was told to end."});
  ranks.close(0);
  ranks.identities[0].incarnation = Incarnation{77};
  ASSERT_TRUE(ranks.join(0));
  EXPECT_FALSE(verdict(ranks)) << "rank 1 was there all the time: the job goes on";
}

TEST(JobVerdict, BusyRank_IsNeverTheReason) {
  WatchedRanks ranks = job_of(4, seconds(4));
  for (const int r : {0, 1, 3}) ranks.wait(r);
  for (int minute = 0; minute < 30; ++minute) {
    ranks.lease[2] = ranks.now + seconds(70);
    ranks.pass(seconds(60));
    ASSERT_FALSE(verdict(ranks)) << minute;
  }
}

TEST(JobVerdict, LostConnection_EndsTheJobOnlyWhereOthersWaitForThatRank) {
  WatchedRanks ranks = job_of(4, seconds(40), 2);
  ranks.close(2);
  ranks.quiet = RankSet::of(Rank{2});
  ranks.pass(seconds(100));
  ASSERT_FALSE(ranks.findings().empty());
  EXPECT_TRUE(ranks.findings()[0].act);
  EXPECT_FALSE(verdict(ranks)) << "nobody waits: it may be the connection alone";
  for (const int r : {0, 1, 3}) ranks.wait(r);
  ranks.pass(seconds(9));
  EXPECT_FALSE(verdict(ranks));
  ranks.pass(seconds(3));
  ASSERT_TRUE(verdict(ranks));
  EXPECT_EQ(verdict(ranks)->code, Code::RankLost);
}

TEST(JobVerdict, SilentRank_EndsTheJobOnlyWhereOthersWaitForIt) {
  WatchedRanks ranks = job_of(4, seconds(40), 2);
  ranks.quiet = RankSet::of(Rank{2});
  ranks.pass(seconds(100));
  EXPECT_FALSE(verdict(ranks));
  for (const int r : {0, 1, 3}) ranks.wait(r);
  ranks.pass(seconds(29));
  EXPECT_FALSE(verdict(ranks));
  ranks.pass(seconds(4));
  ASSERT_TRUE(verdict(ranks));
  EXPECT_EQ(verdict(ranks)->code, Code::Stuck);
}

TEST(JobVerdict, AbsentAndLaggingRanks_EndNoJob) {
  WatchedRanks ranks(4);
  for (const int r : {0, 1, 2}) (void)ranks.join(r).value();
  ranks.quiet = RankSet::of(Rank{3});
  ranks.pass(seconds(1000));
  ASSERT_EQ(ranks.findings().size(), 1U);
  EXPECT_FALSE(verdict(ranks));
}

}  // namespace
}  // namespace lockstep::coordinator::job_verdict_test
