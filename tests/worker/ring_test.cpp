// A ring of waits over three groups, on real ranks: it is named long before the deadline.
#include <chrono>
#include <cstdio>
#include <string>

#include <gtest/gtest.h>
#include <sys/wait.h>

namespace {

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

TEST(RingOverGroups, IsNamedWithinASecondWhateverTheDeadline) {
  const std::string command = std::string("LOCKSTEP_DEADLINE_SECONDS=30 LOCKSTEP_CACHE_DIR=") +
                              TEST_CACHE + " " + MPIRUN + " -t 50 -n 3 " + RING_RANK + " 2>&1";
  FILE* pipe = ::popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string output;
  double entered = 0, named = 0;
  char line[4096];
  while (std::fgets(line, sizeof line, pipe) != nullptr) {
    const std::string text = line;
    if (text.find("enters") != std::string::npos) entered = seconds();
    if (text.find("STUCK") != std::string::npos) named = seconds();
    output += text;
  }
  const int status = ::pclose(pipe);
  EXPECT_EQ(WEXITSTATUS(status), 4) << output;
  ASSERT_GT(named, 0) << output;
  EXPECT_LT(named - entered, 1.0) << output;
  RecordProperty("seconds_to_the_report", std::to_string(named - entered));
  const auto says = [&](const std::string& text) { return output.find(text) != std::string::npos; };
  EXPECT_TRUE(
      says("STUCK: Ranks wait for each other in a ring, so none can go on: rank 0 waits in "
           "operation "))
      << output;
  EXPECT_TRUE(says("(vote of group ab [0-1]) for rank 1; rank 1 waits in operation ")) << output;
  EXPECT_TRUE(says("(vote of group bc [1-2]) for rank 2; rank 2 waits in operation ")) << output;
  EXPECT_TRUE(says("(vote of group ca [0,2]) for rank 0.")) << output;
  EXPECT_TRUE(says("last event: call 2 of step_ab in group ab [0-1]")) << output;
  EXPECT_TRUE(says("last event: call 2 of step_ca in group ca [0,2]")) << output;
}

}  // namespace
