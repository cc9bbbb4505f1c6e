// The real library where there is no GPU: it answers, and what it says is told.
#include <filesystem>

#include <gtest/gtest.h>

#include <lockstep/collectives/nccl/nccl.h>

namespace lockstep::collectives::nccl_driver_test {
namespace {

TEST(NcclDriver, WithoutAGpu_ConnectSaysWhatIsMissing) {
  if (std::filesystem::exists("/dev/nvidiactl"))
    GTEST_SKIP() << "SKIPPED ALOUD: there is a driver here";
  const auto name = nccl_name(Rank{0});
  ASSERT_TRUE(name) << name.error().text();
  EXPECT_EQ(name->rfind("NCCL 2.", 0), 0u) << *name;
  const auto connected =
      connect_nccl({.device_name = "rank 0's CUDA device 0", .deadline = std::chrono::seconds(20)});
  ASSERT_FALSE(connected);
  EXPECT_EQ(connected.error().code, Code::Environment);
  EXPECT_EQ(connected.error().message.rfind(
                "ncclCommInitRankConfig failed on rank 0's CUDA device 0: unhandled cuda error", 0),
            0u)
      << connected.error().message;
}

}  // namespace
}  // namespace lockstep::collectives::nccl_driver_test
