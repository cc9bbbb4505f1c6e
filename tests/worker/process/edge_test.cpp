// The waits in which MPI starts and ends, in real processes: a rank that does not come to them ends
// the job after five deadlines, of 1 s here.
#include "launch.h"
#include <gtest/gtest.h>

namespace lockstep::worker::edge_test {
namespace {

Launched run(const std::string& fault) {
  return launch_ranks(2, std::string(EDGE_RANK) + " " + fault);
}

void expect_in_time(const Launched& job) {
  EXPECT_EQ(job.exit_code, 4) << job.output;
  EXPECT_GT(job.seconds, 4.9);
  EXPECT_LT(job.seconds, 25.0);
}

TEST(EdgeOfMpi, RankThatNeverCallsInit_EndsTheJob) {
  const Launched job = run("init");
  expect_in_time(job);
  EXPECT_EQ(job.count("lockstep: STUCK: The start has waited for 5 s for ranks that did not come"),
            1)
      << job.output;
}

TEST(EdgeOfMpi, RankThatNeverJoinsACommunicatorOfTheUsers_EndsTheJob) {
  const Launched job = run("attach");
  expect_in_time(job);
  EXPECT_EQ(job.count("lockstep: STUCK: The start has waited for 5 s for ranks that did not come"),
            1)
      << job.output;
}

TEST(EdgeOfMpi, RankThatNeverEnds_IsNamedWithWhatItDidLast) {
  const Launched job = run("end");
  expect_in_time(job);
  EXPECT_EQ(job.count("lockstep: STUCK: The job is over here, but MPI has not ended for 5 s "
                      "(MPI_Finalize): rank 1 has not come to its end"),
            1)
      << job.output;
  EXPECT_EQ(job.count("rank 1: in no operation yet, starting, last event: reads its last batch"), 1)
      << job.output;
}

TEST(EdgeOfMpi, RankThatIsLateByMoreThanADeadline_IsWaitedFor) {
  const Launched job = run("late");
  EXPECT_EQ(job.exit_code, 0) << job.output;
  EXPECT_EQ(job.count("ended well"), 1) << job.output;
  EXPECT_EQ(job.count("lockstep:"), 0) << job.output;
}

}  // namespace
}  // namespace lockstep::worker::edge_test
