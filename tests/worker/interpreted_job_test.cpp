// Jobs of which no rank has a compiler: all interpret, and say so once. Where one was named, or a
// peer has one, nothing is interpreted.
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "launch.h"
#include <gtest/gtest.h>

namespace lockstep::worker::interpreted_job_test {
namespace {

const std::string kNoCompiler = "env PATH=/no/such/folder ";
const std::string kSaid = "lockstep: no rank has a C++ compiler, so kernels are interpreted";
const std::string kRank = TCP_JOB_RANK;

std::string training(const std::string& losses) {
  return MOE_TEXT
         " --steps 3 --lines 32 --dtype f64 --text /usr/share/common-licenses/Artistic "
         "--losses " +
         losses;
}

std::vector<double> numbers(const std::string& file) {
  std::ifstream in(file);
  std::vector<double> out;
  for (double value = 0; in >> value;) out.push_back(value);
  return out;
}

// The compiled run comes first: its objects in the cache change nothing.
TEST(InterpretedJob, Losses_AreThoseOfTheCompiledOne_AndItIsSaidOnce) {
  for (const int n : {1, 2, 4}) {
    const Folder folder;
    const Launched compiled = launch_met(n, training(folder / "compiled"));
    EXPECT_EQ(compiled.count("left with 0"), n) << compiled.output;
    EXPECT_EQ(compiled.count(kSaid), 0) << compiled.output;
    const Launched job = launch_met(n, kNoCompiler + training(folder / "interpreted"));
    EXPECT_EQ(job.count("left with 0"), n) << job.output;
    EXPECT_EQ(job.count(kSaid), 1) << job.output;
    EXPECT_EQ(job.count("name one in LOCKSTEP_CXX"), 1) << job.output;
    EXPECT_EQ(job.count("nodes run compiled 0, interpreted "), 1) << job.output;
    EXPECT_EQ(job.count("nodes run compiled 0, interpreted 0"), 0) << job.output;
    const auto ours = numbers(folder / "interpreted"), theirs = numbers(folder / "compiled");
    ASSERT_EQ(ours.size(), 3U);
    ASSERT_EQ(theirs.size(), 3U);
    for (std::size_t i = 0; i < ours.size(); ++i)
      EXPECT_LE(std::abs(ours[i] - theirs[i]), 1e-9 * std::abs(theirs[i])) << n << " ranks";
  }
}

TEST(InterpretedJob, Record_IsReplayedAsItWas) {
  const Folder folder;
  const Launched job =
      launch_met(2, kNoCompiler + training(folder / "losses"), "LOCKSTEP_RECORD=" + (folder / "r"));
  ASSERT_EQ(job.count("left with 0"), 2) << job.output;
  const Launched replay = launch(LOCKSTEP " dryrun " + (folder / "r"));
  EXPECT_EQ(replay.exit_code, 0) << replay.output;
}

TEST(InterpretedJob, Failures_AreThoseOfEveryJob) {
  const Launched job =
      launch_met(3, kNoCompiler + kRank + " kill wait 1", "LOCKSTEP_DEADLINE_SECONDS=30");
  EXPECT_EQ(job.count("lockstep: RANK_LOST: Rank 1 ended"), 1) << job.output;
  EXPECT_EQ(job.count("left with 5"), 2) << job.output;
}

TEST(InterpretedJob, CompilerThatWasNamedAndIsNotThere_IsAnError) {
  for (const char* named : {"LOCKSTEP_CXX=/no/such/compiler ", "LOCKSTEP_CXX=c++ "}) {
    const Launched job = launch_met(2, kNoCompiler + named + kRank + " none call 0");
    EXPECT_EQ(job.count("left with 7"), 2) << job.output;
    EXPECT_EQ(job.count("lockstep: ENVIRONMENT: ranks 0-1 cannot build kernels"), 1) << job.output;
    EXPECT_EQ(job.count(kSaid), 0) << job.output;
  }
  const std::string one =
      "sh -c '[ $LOCKSTEP_RANK = 1 ] && export LOCKSTEP_CXX=/no/such/compiler; "
      "PATH=/no/such/folder; export PATH; exec " +
      kRank + " none call 0'";
  const Launched mixed = launch_met(2, one);
  EXPECT_EQ(mixed.count("left with 7"), 2) << "one rank insists\n" << mixed.output;
}

TEST(InterpretedJob, RankWithoutACompiler_TakesWhatItsPeerBuilds) {
  const Launched job = launch_met(2,
                                  "sh -c '[ $LOCKSTEP_RANK = 0 ] && PATH=/no/such/folder; "
                                  "exec " +
                                      kRank + " none call 0'");
  EXPECT_EQ(job.count("left with 0"), 2) << job.output;
  EXPECT_EQ(job.count("lockstep: rank 0: takes the kernels that other ranks build"), 1)
      << job.output;
  EXPECT_EQ(job.count("interpreted 0"), 1) << job.output;
  EXPECT_EQ(job.count(kSaid), 0) << job.output;
}

}  // namespace
}  // namespace lockstep::worker::interpreted_job_test
