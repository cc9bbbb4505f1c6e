// Jobs that no launcher started: plain processes that meet over TCP on this host.
#include <algorithm>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "launch.h"
#include <gtest/gtest.h>

namespace lockstep::worker::tcp_job_test {
namespace {

/// The lines that match, sorted.
std::vector<std::string> lines(const std::string& output, const std::string& pattern) {
  std::vector<std::string> out;
  std::istringstream in(output);
  const std::regex wanted(pattern);
  for (std::string line; std::getline(in, line);)
    if (std::regex_search(line, wanted)) out.push_back(line);
  std::sort(out.begin(), out.end());
  return out;
}

const std::string kRank = TCP_JOB_RANK;
const std::string kSoon = "LOCKSTEP_DEADLINE_SECONDS=5", kLate = "LOCKSTEP_DEADLINE_SECONDS=30";

TEST(TcpJob, ResultsOnEveryRank_AreThoseOfArithmetic) {
  for (const int n : {1, 2, 3, 4, 5, 8}) {
    const Launched job = launch_met(n, kRank + " none call 0");
    EXPECT_EQ(job.count("left with 0"), n) << job.output;
    for (int call = 0; call < 8; ++call) {
      double total = 0, rows = 0;
      for (int r = 0; r < n; ++r) {
        total += (2 + (r + call) % 3) * (0.5 + call) * (0.5 + call);
        rows += (2 + (r + call) % 3) * (0.5 + call);
      }
      std::ostringstream text;
      text << "call " << call << ": total " << total << " shares " << total << " rows " << rows
           << " even " << call % 4 * n << "\n";
      EXPECT_EQ(job.count(text.str()), n) << text.str() << job.output;
    }
  }
}

#ifdef MPIRUN
TEST(TcpJob, TrainingStep_ComesToTheSameAsUnderMpirun) {
  const std::string program = kRank + " none call 0";
  const auto tcp = launch_met(4, program), mpi = launch_ranks(4, program);
  ASSERT_EQ(mpi.exit_code, 0) << mpi.output;
  EXPECT_EQ(lines(tcp.output, "^rank . call").size(), 32U) << tcp.output;
  EXPECT_EQ(lines(tcp.output, "^rank . call"), lines(mpi.output, "^rank . call"));
}
#endif

TEST(TcpJob, Examples_EndWellAndLearnTheSame) {
  EXPECT_EQ(launch_met(4, UNEVEN_DATA).count("the losses are the same"), 1);
  EXPECT_EQ(launch_met(4, GROUPS).count("left with 0"), 4);
  EXPECT_EQ(launch_met(2, std::string(PREFETCH) + " 40").count("left with 0"), 2);
}

TEST(TcpJob, KilledRank_EndsTheOthersNamingIt) {
  for (const char* moment : {"call", "wait"}) {
    const Launched job = launch_met(4, kRank + " kill " + moment + " 2", kLate);
    EXPECT_EQ(job.count("lockstep: RANK_LOST: Rank 2 ended without finishing the job"), 1)
        << job.output;
    EXPECT_EQ(job.count("left with 5"), 3) << job.output;
    EXPECT_EQ(job.count("rank 2 left with 137"), 1) << job.output;
    EXPECT_LT(job.seconds, 15);
  }
}

TEST(TcpJob, RankThatExitsEarly_IsLost) {
  const Launched job = launch_met(3, kRank + " exit call 1", kLate);
  EXPECT_EQ(job.count("lockstep: RANK_LOST: Rank 1 ended without finishing the job"), 1)
      << job.output;
  EXPECT_EQ(job.count("left with 5"), 2) << job.output;
}

TEST(TcpJob, StoppedRank_IsNamedWithinTheDeadline) {
  for (const char* moment : {"call", "wait"}) {
    const Launched job = launch_met(4, kRank + " stop " + moment + " 1", kSoon);
    EXPECT_EQ(job.count("lockstep: STUCK: Rank 1 is suspended"), 1) << job.output;
    EXPECT_EQ(job.count("left with 4"), 3) << job.output;
    EXPECT_LT(job.seconds, 20);
  }
}

TEST(TcpJob, RankThatHangs_IsNamed_OneThatIsStoppedForAWhileIsNot) {
  const Launched hung = launch_met(3, kRank + " hang call 0", kSoon);
  EXPECT_EQ(hung.count("lockstep: STUCK: Rank 0 did not come to "), 1) << hung.output;
  const Launched paused = launch_met(3, kRank + " pause wait 2", "LOCKSTEP_DEADLINE_SECONDS=6");
  EXPECT_EQ(paused.count("left with 0"), 3) << paused.output;
}

TEST(TcpJob, RankThatNeverComes_IsNamed) {
  const Launched job =
      launch_met(4, kRank + " none call 0", "LOCKSTEP_DEADLINE_SECONDS=1", /*without=*/2);
  EXPECT_EQ(job.count("lockstep: STUCK: After 5 s rank 2 had not come to the rendezvous"), 3)
      << job.output;
  EXPECT_EQ(job.count("left with 4"), 3) << job.output;
}

TEST(TcpJob, AnotherSecret_IsAuthentication) {
  const Launched job =
      launch_met(2, kRank + " none call 0",
                 "LOCKSTEP_DEADLINE_SECONDS=1 LOCKSTEP_TOKEN=0123456789abcdef$((LOCKSTEP_RANK))");
  EXPECT_EQ(job.count("VERSION: The rendezvous at"), 1) << job.output;
  EXPECT_EQ(job.count("rank 1 left with 6"), 1) << job.output;
  EXPECT_EQ(job.count("rank 0 left with 4"), 1) << job.output;
}

TEST(TcpJob, SettingsThatMakeNoSense_AreRefusedAtOnce) {
  const auto one = [](const std::string& environment) {
    return launch("env LOCKSTEP_CACHE_DIR=" TEST_CACHE " " + environment + " " + kRank +
                  " none call 0");
  };
  const std::string here = "LOCKSTEP_RENDEZVOUS=127.0.0.1:4711 ";
  struct Case {
    std::string environment, said;
    int code;
  };
  for (const auto& [environment, said, code] : std::vector<Case>{
           {here, "LOCKSTEP_RANK= is not understood", 2},
           {here + "LOCKSTEP_RANK=0", "LOCKSTEP_WORLD_SIZE= is not understood", 2},
           {here + "LOCKSTEP_RANK=2 LOCKSTEP_WORLD_SIZE=2", "below LOCKSTEP_WORLD_SIZE", 2},
           {here + "LOCKSTEP_RANK=-1 LOCKSTEP_WORLD_SIZE=2", "LOCKSTEP_RANK=-1", 2},
           {"LOCKSTEP_RENDEZVOUS=here:1 LOCKSTEP_RANK=0 LOCKSTEP_WORLD_SIZE=2",
            "here:1 is no address", 2},
           {"LOCKSTEP_RENDEZVOUS=0.0.0.0:1 LOCKSTEP_RANK=0 LOCKSTEP_WORLD_SIZE=2 "
            "LOCKSTEP_TOKEN=0123456789abcdef",
            "is no place to meet at", 2},
           {"LOCKSTEP_RENDEZVOUS=192.0.2.1:4711 LOCKSTEP_RANK=0 LOCKSTEP_WORLD_SIZE=2",
            "there is no secret to keep strangers out", 6},
           {here + "LOCKSTEP_RANK=0 LOCKSTEP_WORLD_SIZE=2 LOCKSTEP_TOKEN=short",
            "shorter than 16 bytes", 6}}) {
    const Launched job = one(environment);
    EXPECT_EQ(job.exit_code, code) << environment << "\n" << job.output;
    EXPECT_EQ(job.count(said), 1) << job.output;
  }
}

}  // namespace
}  // namespace lockstep::worker::tcp_job_test
