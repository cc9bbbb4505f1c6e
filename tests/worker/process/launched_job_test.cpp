// Ranks that a launcher has started: in a build without MPI they meet over TCP by what it tells
// them; in one with MPI it has to be the launcher of that MPI.
#include <filesystem>
#include <string>

#include "launch.h"
#include <gtest/gtest.h>

namespace lockstep::worker::launched_job_test {
namespace {

const std::string kRank = TCP_JOB_RANK;

#ifndef HAVE_MPI

/// Processes with the variables of MPICH's mpiexec, each of which ends its output with "rank 3 left
/// with 0". They are children of one shell, as of one daemon. `without`: a rank that is not
/// started.
std::string started(int ranks, const std::string& program, int without = -1) {
  const std::string n = std::to_string(ranks);
  return "sh -c 'for r in $(seq 0 " + std::to_string(ranks - 1) +
         "); do [ $r = " + std::to_string(without) +
         " ] && continue; (env PMI_RANK=$r PMI_SIZE=" + n + " MPI_LOCALNRANKS=" + n +
         " sh -c \"timeout -s KILL 40 " + program +
         "; echo rank $r left with \\$?\") & done; wait'";
}

class LaunchedJob : public testing::Test {
 protected:
  Launched run(const std::string& command, const std::string& environment = {}) {
    return launch("export LOCKSTEP_CACHE_DIR=" + (cache_ / "c") + " " + environment + "; " +
                  command);
  }
  [[nodiscard]] bool nothing_left() const {
    return std::filesystem::is_empty(cache_ / "c/rendezvous");
  }
  Folder cache_;
};

TEST_F(LaunchedJob, RanksOfOneHost_MeetByWhatTheLauncherTells) {
  for (const int n : {1, 2, 4}) {
    const Launched job = run(started(n, kRank + " none call 0"));
    EXPECT_EQ(job.count("left with 0"), n) << job.output;
    EXPECT_EQ(job.count("call 7: total"), n) << job.output;
    EXPECT_EQ(job.count("all ranks ran"), 1) << job.output;
  }
  EXPECT_TRUE(nothing_left());
}

TEST_F(LaunchedJob, JobsAtOnce_DoNotMeetEachOther) {
  std::string both;
  for (int job = 0; job < 2; ++job) both += started(2, kRank + " none call 0 20") + " & ";
  const Launched jobs = run(both + "wait");
  EXPECT_EQ(jobs.count("left with 0"), 4) << jobs.output;
  EXPECT_EQ(jobs.count("all ranks ran"), 2) << jobs.output;
}

TEST_F(LaunchedJob, ProgramsOneAfterTheOther_MeetAnew) {
  const Launched job =
      run(started(2, kRank + " none call 0 >/dev/null && " + kRank + " none call 0"));
  EXPECT_EQ(job.count("left with 0"), 2) << job.output;
  EXPECT_EQ(job.count("all ranks ran"), 1) << job.output;
}

TEST_F(LaunchedJob, RankThatNeverComes_IsNamed) {
  const Launched job =
      run(started(4, kRank + " none call 0", /*without=*/2), "LOCKSTEP_DEADLINE_SECONDS=1");
  EXPECT_EQ(job.count("lockstep: STUCK: After 5 s rank 2 had not come to the rendezvous"), 3)
      << job.output;
  EXPECT_EQ(job.count("left with 4"), 3) << job.output;
  const Launched headless =
      run(started(2, kRank + " none call 0", /*without=*/0), "LOCKSTEP_DEADLINE_SECONDS=1");
  EXPECT_EQ(headless.count("lockstep: STUCK: Rank 1 found nobody at the rendezvous at /"), 1)
      << headless.output;
  EXPECT_TRUE(nothing_left());
}

TEST_F(LaunchedJob, KilledRank_EndsTheOthersNamingIt) {
  const Launched job = run(started(3, kRank + " kill call 1"), "LOCKSTEP_DEADLINE_SECONDS=30");
  EXPECT_EQ(job.count("lockstep: RANK_LOST: Rank 1 ended"), 1) << job.output;
  EXPECT_EQ(job.count("left with 5"), 2) << job.output;
}

TEST_F(LaunchedJob, RendezvousThatIsGiven_IsWhereTheyMeet) {
  const std::string path = cache_ / "here";
  const Launched job = run(started(2, kRank + " none call 0"), "LOCKSTEP_RENDEZVOUS=" + path);
  EXPECT_EQ(job.count("left with 0"), 2) << job.output;
  EXPECT_FALSE(std::filesystem::exists(cache_ / "c/rendezvous"));
}

TEST_F(LaunchedJob, RanksOnSeveralHosts_AreToldWhatToSet) {
  const Launched job = run("env PMI_RANK=1 PMI_SIZE=4 MPI_LOCALNRANKS=2 " + kRank + " none call 0");
  EXPECT_EQ(job.exit_code, 7) << job.output;
  EXPECT_EQ(job.count("mpiexec -genv LOCKSTEP_RENDEZVOUS ADDRESS:PORT"), 1) << job.output;
  EXPECT_EQ(job.count("\n"), 1) << job.output;
}

TEST_F(LaunchedJob, UnderMpirun_RanksMeet) {
  if (launch("command -v mpirun").exit_code != 0) GTEST_SKIP() << "there is no mpirun here";
  for (const int n : {1, 2, 4}) {
    const Launched job =
        run(MPIRUN " -t 60 -n " + std::to_string(n) + " " + kRank + " none call 0");
    EXPECT_EQ(job.exit_code, 0) << job.output;
    EXPECT_EQ(job.count("call 7: total"), n) << job.output;
    EXPECT_EQ(job.count("all ranks ran"), 1) << job.output;
  }
  EXPECT_TRUE(nothing_left());
}

#else

std::string started(const std::string& variables) {
  return "env LOCKSTEP_CACHE_DIR=" TEST_CACHE " " + variables + " " + kRank + " none call 0";
}

// Each of the processes would be a job of its own, with sums of its own.
TEST(LaunchedJob, LauncherOfAnotherMpi_IsRefusedNamingOurs) {
  const Launched job =
      launch(started("PMI_RANK=1 PMI_SIZE=4 PMI_PORT=127.0.0.1:9 MPI_LOCALNRANKS=4"));
  EXPECT_EQ(job.exit_code, 7) << job.output;
  EXPECT_EQ(job.count("lockstep: ENVIRONMENT: 4 processes were started together, but to the MPI of "
                      "this build ("),
            1)
      << job.output;
  EXPECT_EQ(job.count("start them with its own mpirun"), 1) << job.output;
}

TEST(LaunchedJob, ProcessOnItsOwn_GoesOn) {
  for (const char* variables :
       {"", "PMI_RANK=0 PMI_SIZE=1 PMI_PORT=127.0.0.1:9", "PMI_RANK=1 PMI_SIZE=4",
        "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4",
        "SLURM_JOB_ID=8 SLURM_PROCID=0 SLURM_NTASKS=4"}) {
    const Launched job = launch(started(variables));
    EXPECT_EQ(job.exit_code, 0) << variables << "\n" << job.output;
  }
}

#endif

}  // namespace
}  // namespace lockstep::worker::launched_job_test
