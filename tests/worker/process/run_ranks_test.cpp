// scripts/run-ranks with real ranks: its exit codes, how it ends a job, and that it leaves nothing.
#include <filesystem>
#include <string>
#include <vector>

#include "launch.h"
#include <gtest/gtest.h>
#include <unistd.h>

namespace lockstep::worker::run_ranks_test {
namespace {

const std::string kRank = TCP_JOB_RANK;
const std::string kSoon = "LOCKSTEP_DEADLINE_SECONDS=5 ", kLate = "LOCKSTEP_DEADLINE_SECONDS=30 ";

/// Of processes of a test and what they leave, found by a variable that all of them have.
class RunRanks : public testing::Test {
 protected:
  /// `before`: what stands before the script, variables first.
  Launched run(const std::string& arguments, const std::string& before = {}) {
    return launch("env " + mark_ + " TMPDIR=" + (folder_ / "") +
                  " LOCKSTEP_CACHE_DIR=" TEST_CACHE " " + before + " " RUN_RANKS " " + arguments);
  }
  ~RunRanks() override {
    EXPECT_EQ(processes_with(mark_), std::vector<std::string>{});
    EXPECT_TRUE(std::filesystem::is_empty(folder_ / ""));
  }
  RunRanks() = default;

 private:
  Folder folder_;
  std::string mark_ = "RUN_RANKS_TEST=" + std::to_string(::getpid());
};

TEST_F(RunRanks, JobOfAnySize_EndsWell) {
  for (const int n : {1, 2, 4}) {
    const Launched job = run("-n " + std::to_string(n) + " " + kRank + " none call 0");
    EXPECT_EQ(job.exit_code, 0) << job.output;
    EXPECT_EQ(job.count("call 7: total"), n) << job.output;
    EXPECT_EQ(job.count("all ranks ran"), 1) << job.output;
    EXPECT_EQ(job.count("run-ranks"), 0) << job.output;
  }
}

TEST_F(RunRanks, JobsAtOnce_DoNotMeetEachOther) {
  const std::string one = RUN_RANKS " -n 2 " + kRank + " none call 0";
  const Launched jobs = run("-n 3 sh -c '" + one + "'");
  EXPECT_EQ(jobs.exit_code, 0) << jobs.output;
  EXPECT_EQ(jobs.count("all ranks ran"), 3) << jobs.output;
}

TEST_F(RunRanks, Divergence_IsItsExitCode) {
  const Launched job = run("-n 4 " DIVERGENCE);
  EXPECT_EQ(job.exit_code, 3) << job.output;
  EXPECT_EQ(job.count("BRANCH_DIVERGENCE"), 1) << job.output;
}

TEST_F(RunRanks, RankThatIsKilled_IsNamed_AndTheSurvivorsCodeIsTheJobs) {
  const Launched job = run("-n 4 " + kRank + " kill call 2", kLate);
  EXPECT_EQ(job.exit_code, 5) << job.output;
  EXPECT_EQ(job.count("lockstep: RANK_LOST: Rank 2 ended"), 1) << job.output;
  EXPECT_EQ(job.count("run-ranks: rank 2 was ended by signal 9."), 1) << job.output;
  EXPECT_EQ(job.count("Killed"), 0) << job.output;
}

TEST_F(RunRanks, RankThatEndsBeforeAllHaveMet_EndsTheJobSoon) {
  struct Case {
    int rank;
    std::string end;
    int code;
  };
  for (const auto& [rank, end, code] : std::vector<Case>{
           {1, "kill -9 $$", 137}, {1, "exit 9", 9}, {1, "exit 0", 5}, {0, "exit 9", 9}}) {
    const std::string number = std::to_string(rank);
    const Launched job = run("-n 3 sh -c 'case $LOCKSTEP_RANK in " + number + ") " + end +
                             ";; *) exec " + kRank + " none call 0;; esac'");
    EXPECT_EQ(job.exit_code, code) << job.output;
    EXPECT_EQ(job.count("run-ranks: rank " + number + " ended before all ranks had met"), 1)
        << job.output;
    EXPECT_LT(job.seconds, 40) << "the ranks themselves wait for five minutes";
  }
}

TEST_F(RunRanks, RankThatIsStopped_DoesNotOutliveTheJob) {
  const Launched job = run("-n 3 " + kRank + " suspend call 1", kSoon);
  EXPECT_EQ(job.exit_code, 4) << job.output;
  EXPECT_EQ(job.count("lockstep: STUCK: Rank 1 is suspended"), 1) << job.output;
}

TEST_F(RunRanks, ToldToEnd_TellsTheRanks_AndIsItsExitCode) {
  struct Case {
    std::string signal, said;
    int code;
  };
  for (const auto& [signal, said, code] : std::vector<Case>{
           {"INT", "was told to end (SIGINT)", 130}, {"TERM", "was told to end (SIGTERM)", 143}}) {
    const Launched job = run("-n 3 " + kRank + " none call 0 2000",
                             "timeout --foreground --preserve-status -s " + signal + " 8");
    EXPECT_EQ(job.exit_code, code) << job.output;
    EXPECT_EQ(job.count("lockstep: GONE: "), 1) << job.output;
    EXPECT_EQ(job.count(said), 1) << job.output;
    EXPECT_LT(job.seconds, 30);
  }
}

TEST_F(RunRanks, ProgramThatDoesNotListen_IsEndedAllTheSame) {
  const Launched job = run("-n 2 sh -c 'trap \"\" TERM; sleep 60 & wait; sleep 60'",
                           "timeout --foreground --preserve-status -s TERM 1");
  EXPECT_EQ(job.exit_code, 143) << job.output;
  EXPECT_LT(job.seconds, 20);
}

TEST_F(RunRanks, CodeOfItsOwn_CountsMoreThanASignal) {
  const Launched job =
      run("-n 3 sh -c 'case $LOCKSTEP_RANK in 0) kill -9 $$;; 1) sleep 1; exit 9;; esac'");
  EXPECT_EQ(job.exit_code, 9) << job.output;
  const Launched killed = run("-n 2 sh -c 'kill -9 $$'");
  EXPECT_EQ(killed.exit_code, 137) << killed.output;
}

TEST_F(RunRanks, Ranks_AreNumberedAndShareTheProcessors) {
  const std::string say =
      "sh -c 'echo rank $LOCKSTEP_RANK of $LOCKSTEP_WORLD_SIZE, "
      "$OPENBLAS_NUM_THREADS; cat'";
  const Launched three = run("-n 3 " + say, "OPENBLAS_NUM_THREADS=");
  for (const char* line : {"rank 0 of 3, 1\n", "rank 1 of 3, 1\n", "rank 2 of 3, 1\n"})
    EXPECT_EQ(three.count(line), 1) << three.output;
  EXPECT_EQ(run("-n 2 -- " + say, "OPENBLAS_NUM_THREADS=2").count("of 2, 2\n"), 2);
  EXPECT_EQ(run("-n 1 " + say, "env -u OPENBLAS_NUM_THREADS").count("rank 0 of 1,\n"), 1);
}

TEST_F(RunRanks, WrongUse_IsSaidInOneSentence) {
  struct Case {
    std::string arguments, said;
  };
  for (const auto& [arguments, said] : std::vector<Case>{
           {"", "it is not said how many ranks"},
           {"-n", "-n takes a number"},
           {"-n 0 true", "-n 0 is no number of ranks"},
           {"-n two true", "-n two is no number of ranks"},
           {"-n 2", "there is no program to start"},
           {"-x true", "there is no option -x"},
           {"-n 2 no_such_program", "there is no program no_such_program that can be run"},
           {"-n 2 /etc/passwd", "there is no program /etc/passwd that can be run"}}) {
    const Launched job = run(arguments);
    EXPECT_EQ(job.exit_code, 2) << arguments;
    EXPECT_EQ(job.count(said), 1) << job.output;
    EXPECT_EQ(job.count("\n"), 1) << job.output;
  }
  for (const char* help : {"-h", "--help"}) {
    const Launched asked = run(help);
    EXPECT_EQ(asked.exit_code, 0);
    EXPECT_EQ(asked.count("usage: run-ranks -n RANKS PROGRAM"), 1) << asked.output;
  }
}

}  // namespace
}  // namespace lockstep::worker::run_ranks_test
