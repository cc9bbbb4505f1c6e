// A build without NCCL says so where NCCL is asked for.
#include <gtest/gtest.h>

#include <lockstep/collectives/nccl/nccl.h>

namespace lockstep::collectives::nccl_missing_test {
namespace {

TEST(NcclMissing, EveryCall_SaysWhatIsMissing) {
  const auto said = [](const Status& status, std::string_view who) {
    EXPECT_EQ(status.code, Code::Environment);
    EXPECT_EQ(status.message.rfind(who, 0), 0u) << status.message;
    EXPECT_NE(status.message.find("LOCKSTEP_WITH_NCCL"), std::string::npos) << status.message;
  };
  said(nccl_name(Rank{1}).error(), "rank 1 cannot use NCCL");
  said(nccl_unique_id(Rank{2}).error(), "rank 2 cannot use NCCL");
  said(connect_nccl({.device_name = "rank 3's CUDA device 0"}).error(),
       "rank 3's CUDA device 0 cannot use NCCL");
}

}  // namespace
}  // namespace lockstep::collectives::nccl_missing_test
