// A build without CUDA says so where CUDA is asked for.
#include <gtest/gtest.h>

#include <lockstep/worker/compile/toolchain/nvrtc_toolchain.h>

namespace lockstep::worker::nvrtc_missing_test {
namespace {

TEST(NvrtcMissing, Open_SaysWhatIsMissing) {
  const auto opened = open_nvrtc({.architecture = "sm_90", .rank = Rank{2}});
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, Code::Environment);
  EXPECT_NE(opened.error().message.find("rank 2 cannot make kernels for sm_90"), std::string::npos);
  EXPECT_NE(opened.error().message.find("LOCKSTEP_WITH_CUDA"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::worker::nvrtc_missing_test
