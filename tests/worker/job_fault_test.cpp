// Real jobs under mpirun that go wrong: one message that says what and where, soon, and the exit
// code that README.md promises. mpirun's code is that of the first rank that failed.
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>

#include "launch.h"
#include <gtest/gtest.h>

namespace lockstep::worker::job_fault_test {
namespace {

Launched faulty(const std::string& fault, const std::string& environment = {}, int ranks = 3) {
  return launch_ranks(ranks, std::string(JOB_FAULT_RANK) + " " + fault, environment);
}

/// The lines that say what came of the calls.
std::string totals(const Launched& job) {
  std::string out;
  std::size_t from = 0;
  while (from < job.output.size()) {
    const std::size_t end = std::min(job.output.find('\n', from), job.output.size());
    const std::string line = job.output.substr(from, end - from);
    if (line.starts_with("total ")) out += line + "\n";
    from = end + 1;
  }
  return out;
}

/// One error of the job, by one of its ranks.
void expect_one(const Launched& job, const std::string& code, int exit_code) {
  EXPECT_EQ(job.count("lockstep: " + code + ": "), 1) << job.output;
  EXPECT_EQ(job.exit_code, exit_code) << job.output;
}

TEST(JobFault, None_EndsWithZeroAndTheSummary) {
  const Launched job = faulty("none");
  EXPECT_EQ(job.exit_code, 0) << job.output;
  EXPECT_EQ(job.count("total "), 8 + 1) << job.output;  // and the row of the summary
  EXPECT_EQ(job.count("lockstep: 3 ranks"), 1) << job.output;
  EXPECT_EQ(job.count("all ranks ran "), 1) << job.output;
}

TEST(JobFault, ExceptionBetweenCalls_ReachesAllRanks) {
  const Launched job = faulty("throw");
  expect_one(job, "GONE", 3);
  EXPECT_GE(job.count("rank 1 left the job: the data loader found no file"), 1) << job.output;
}

TEST(JobFault, ExceptionThatUnwindsTheJob_ReachesAllRanks) {
  const Launched job = faulty("caught");
  EXPECT_EQ(job.count("lockstep: GONE: "), 1) << job.output;
  EXPECT_GE(job.count("rank 1 left the job: an exception ended its program"), 1) << job.output;
  EXPECT_TRUE(job.exit_code == 3 || job.exit_code == 1) << job.output;
}

TEST(JobFault, ReturnFromMainWithoutFinish_ReachesAllRanks) {
  const Launched job = faulty("return");
  expect_one(job, "GONE", 3);
  EXPECT_GE(job.count("rank 1 left the job: its program ended without finish()"), 1) << job.output;
}

/// The others are in the call, too.
TEST(JobFault, EndWhileAThreadsCallIsUnderWay_EndsTheJobNamingBothThreads) {
  for (const int ranks : {1, 3}) {
    const Launched job = faulty("thread", {}, ranks);
    expect_one(job, "BAD_INPUT", 2);
    EXPECT_EQ(job.count(": the main thread ("), 1) << job.output;
    EXPECT_EQ(job.count(" is under way, and a job takes one call at a time"), 1) << job.output;
  }
}

TEST(JobFault, ExceptionThatNobodyCatches_LosesTheRank) {
  const Launched job = faulty("uncaught");
  EXPECT_EQ(job.count("lockstep: RANK_LOST: Rank 1 ended without finishing the job"), 1)
      << job.output;
  EXPECT_TRUE(job.exit_code == 134 || job.exit_code == 5) << job.exit_code << job.output;
  EXPECT_LT(job.seconds, 20);
}

TEST(JobFault, ExitWithZero_LosesTheRankAndTheJobFails) {
  const Launched job = faulty("exit");
  EXPECT_EQ(job.count("lockstep: RANK_LOST: Rank 1 ended without finishing the job"), 1)
      << job.output;
  EXPECT_NE(job.exit_code, 0) << job.output;
  EXPECT_LT(job.seconds, 20);
}

TEST(JobFault, Kill_LosesTheRankAndSaysWhatItDidLast) {
  const Launched job = faulty("kill");
  EXPECT_EQ(job.count("lockstep: RANK_LOST: Rank 1 ended without finishing the job"), 1)
      << job.output;
  EXPECT_GE(job.count("train_step"), 1) << job.output;
  EXPECT_TRUE(job.exit_code == 137 || job.exit_code == 5) << job.exit_code << job.output;
  EXPECT_LT(job.seconds, 20);
}

TEST(JobFault, ALoopInAGraphThatNeverEnds_IsNamedAtTheDeadline) {
  const Launched job = faulty("endless", "LOCKSTEP_DEADLINE_SECONDS=3");
  expect_one(job, "STUCK", 4);
  EXPECT_EQ(job.count("Rank 1 did not come to operation"), 1) << job.output;
  EXPECT_EQ(job.count("rank 1: began operation"), 1) << job.output;
  EXPECT_EQ(job.count("of train_step runs"), 1) << job.output;
}

TEST(JobFault, AStepOverManyElements_IsWaitedFor_AndItsRankNamedOnceItStaysAway) {
  const Launched job = faulty("long", "LOCKSTEP_DEADLINE_SECONDS=1", 2);
  EXPECT_EQ(job.count("total "), 5) << job.output;
  expect_one(job, "STUCK", 4);
  EXPECT_EQ(job.count("Rank 1 did not come to operation"), 1) << job.output;
  EXPECT_GT(job.seconds, 3) << "the long step took less than the deadline";
  EXPECT_LT(job.seconds, 60);
}

TEST(JobFault, SettingThatOneRankLacks_IsAMismatch) {
  const Launched job = faulty("none LOCKSTEP_COORDINATION=off");
  expect_one(job, "CONFIG_MISMATCH", 3);
  EXPECT_GE(job.count("LOCKSTEP_COORDINATION"), 1) << job.output;
}

TEST(JobFault, LogSettingThatIsNotUnderstood_IsBadInput) {
  const Launched job = faulty("none", "LOCKSTEP_LOG=loud", 1);
  expect_one(job, "BAD_INPUT", 2);
  EXPECT_EQ(job.count("LOCKSTEP_LOG=loud is not understood"), 1) << job.output;
  EXPECT_EQ(faulty("none", "LOCKSTEP_LOG=loud").exit_code, 2);
}

TEST(JobFault, SettingThatOneRankDoesNotUnderstand_DoesNotLeaveTheOthersWaiting) {
  const Launched job = faulty("none LOCKSTEP_LOG=loud");
  EXPECT_EQ(job.exit_code, 2) << job.output;
  EXPECT_GE(job.count("LOCKSTEP_LOG=loud is not understood"), 1) << job.output;
}

TEST(JobFault, NoCompilerAnywhere_IsTheEnvironment) {
  const Launched job = faulty("none", "LOCKSTEP_CXX=/nonexistent/c++");
  expect_one(job, "ENVIRONMENT", 7);
  EXPECT_GE(job.count("/nonexistent/c++"), 1) << job.output;
}

TEST(JobFault, ArtifactsThatWereAltered_AreReportedOnceAndRebuilt) {
  const Folder folder;
  const std::string environment = "LOCKSTEP_CACHE_DIR=" + folder / "cache";
  const Launched whole = faulty("none", environment);
  ASSERT_EQ(whole.exit_code, 0) << whole.output;
  int altered = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder / "cache")) {
    if (!file.is_regular_file() || file.path().has_extension()) continue;  // no artifact
    std::fstream bytes(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(static_cast<std::streamoff>(file.file_size() / 2));
    bytes.write("lockstep", 8);
    ++altered;
  }
  ASSERT_GT(altered, 0);
  const Launched again = faulty("none", environment);
  EXPECT_EQ(again.exit_code, 0) << again.output;
  EXPECT_EQ(again.count(".bad"), altered) << again.output;
  EXPECT_EQ(totals(again), totals(whole));
  const Launched third = faulty("none", environment);
  EXPECT_EQ(third.count(".bad"), 0) << third.output;
  EXPECT_EQ(third.count("compiler children of rank 0: 0"), 1) << third.output;
  EXPECT_EQ(totals(third), totals(whole));
}

TEST(JobFault, CacheThatCannotBeWritten_IsToldAndTheJobGoesOn) {
  const Folder folder;
  std::ofstream(folder / "file") << "in the way";
  const Launched job = faulty("none", "LOCKSTEP_CACHE_DIR=" + folder / "file/cache");
  EXPECT_EQ(job.exit_code, 0) << job.output;
  EXPECT_EQ(job.count("goes on without an artifact cache"), 3) << job.output;
  EXPECT_EQ(totals(job), totals(faulty("none")));
}

Launched dryrun(const std::string& directory) {
  return launch(std::string(LOCKSTEP) + " dryrun " + directory);
}

TEST(JobFault, Record_ReplaysAndAnAlteredOneDoesNot) {
  const Folder folder;
  const std::string record = folder / "record";
  const Launched job = faulty("none", "LOCKSTEP_RECORD=" + record);
  ASSERT_EQ(job.exit_code, 0) << job.output;
  const Launched replay = dryrun(record);
  EXPECT_EQ(replay.exit_code, 0) << replay.output;

  // One size of one call, as one rank recorded it.
  const std::string file = record + "/rank-00001.jsonl";
  const std::string lines = contents(file);
  const std::regex values(R"re("values":\[4\])re");
  ASSERT_TRUE(std::regex_search(lines, values)) << lines.substr(0, 2000);
  std::ofstream(file) << std::regex_replace(lines, values, R"re("values":[9])re",
                                            std::regex_constants::format_first_only);
  const Launched altered = dryrun(record);
  EXPECT_EQ(altered.exit_code, 3) << altered.output;

  // One hint of one decision.
  const std::regex hint(R"re(min 2 hint \d+)re");
  ASSERT_TRUE(std::regex_search(lines, hint)) << lines.substr(0, 4000);
  std::ofstream(file) << std::regex_replace(lines, hint, "min 2 hint 77",
                                            std::regex_constants::format_first_only);
  const Launched decided = dryrun(record);
  EXPECT_EQ(decided.exit_code, 3) << decided.output;
}

TEST(JobFault, RecordThatIsThereAlready_IsRefusedOnAllRanks) {
  const Folder folder;
  const std::string environment = "LOCKSTEP_RECORD=" + folder / "record";
  ASSERT_EQ(faulty("none", environment).exit_code, 0);
  const Launched again = faulty("none", environment);
  expect_one(again, "BAD_INPUT", 2);
  // One line for all: the files of the ranks have different names, but the trouble is the same.
  EXPECT_GE(again.count("ranks 0-2 failed before start"), 1) << again.output;
}

TEST(JobFault, Prefetch_ChangesNoResult_AndItsRecordReplays) {
  const Folder folder;
  const std::string record = folder / "record";
  const Launched plain = faulty("none");
  const Launched ahead = faulty("none+prefetch", "LOCKSTEP_RECORD=" + record);
  ASSERT_EQ(ahead.exit_code, 0) << ahead.output;
  EXPECT_EQ(totals(plain), totals(ahead));
  const Launched replay = dryrun(record);
  EXPECT_EQ(replay.exit_code, 0) << replay.output;
}

// The others take the vote that the rank cast before, and are in a data collective when it goes.
TEST(JobFault, ExceptionAfterAPrefetch_EndsTheJobWithItsText) {
  const Launched job = faulty("throw+prefetch");
  expect_one(job, "GONE", 3);
  EXPECT_GE(job.count("rank 1 left the job: the data loader found no file"), 1) << job.output;
}

TEST(JobFault, KillAfterAPrefetch_LosesTheRank) {
  const Launched job = faulty("kill+prefetch");
  EXPECT_EQ(job.count("lockstep: RANK_LOST: Rank 1 ended without finishing the job"), 1)
      << job.output;
  EXPECT_LT(job.seconds, 20);
}

TEST(JobFault, PrefetchThatIsNotKept_EndsTheJob_NamingSourceAndBothValues) {
  const Launched job = faulty("broken+prefetch");
  expect_one(job, "BAD_INPUT", 2);
  EXPECT_EQ(job.count("train_step was prefetched with x.size(0): 3, but is called with 4"), 1)
      << job.output;
}

}  // namespace
}  // namespace lockstep::worker::job_fault_test
