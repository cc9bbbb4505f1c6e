// What doctor says of CUDA's libraries in a program that was built without them.
#include <gtest/gtest.h>

#include <lockstep/worker/cli/checks.h>

namespace lockstep::worker::cli::check_cuda_missing_test {
namespace {

TEST(CheckCuda, BuiltWithout_SaysSoInEveryLine) {
  std::vector<Check> checks = check_cuda(CudaPlaces::here());
  ASSERT_EQ(checks.size(), 3U);
  for (const Check& check : checks) {
    EXPECT_EQ(check.grade, Check::Grade::Warn);
    EXPECT_NE(check.detail.find("LOCKSTEP_WITH_CUDA"), std::string::npos) << check.detail;
  }
  EXPECT_EQ(checks[0].name, "cuda");
  EXPECT_EQ(checks[1].name, "nvrtc");
  EXPECT_EQ(checks[2].name, "cublas");
  const Check nccl = check_nccl(CudaPlaces::here());
  EXPECT_EQ(nccl.name, "nccl");
  EXPECT_EQ(nccl.grade, Check::Grade::Warn);
  EXPECT_NE(nccl.detail.find("LOCKSTEP_WITH_NCCL"), std::string::npos) << nccl.detail;
}

}  // namespace
}  // namespace lockstep::worker::cli::check_cuda_missing_test
