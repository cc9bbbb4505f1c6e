// The emulated device does what a device has to do.
#include "device_suite.h"
#include "emulated_device.h"
#include <gtest/gtest.h>

#include <lockstep/worker/compile/device/cuda_device.h>

namespace lockstep::worker::device_seam_test {
namespace {

class EmulatedDeviceSeam : public testing::Test {
 protected:
  void TearDown() override {
    EXPECT_EQ(device_.live_bytes(), 0U);
    EXPECT_EQ(device_.recordings(), 0U);
  }
  EmulatedDevice device_;
};

TEST_F(EmulatedDeviceSeam, Products_AsTheHosts) { expect_products(device_); }
TEST_F(EmulatedDeviceSeam, Zeros_WhereTheyAreAskedFor) { expect_zeros_and_copies(device_); }
TEST_F(EmulatedDeviceSeam, Recordings_AreDoneWhenLaunched) { expect_recordings(device_); }
TEST_F(EmulatedDeviceSeam, FlawedRecordings_AreRefused) {
  expect_flawed_recordings_refused(device_);
}

TEST_F(EmulatedDeviceSeam, CallThatFailsInARecording_IsTheErrorOfItsEnd) {
  const auto memory = device_.allocate(64);
  ASSERT_TRUE(device_.begin_recording().has_value());
  device_.fail_call(1);
  EXPECT_TRUE(device_.zero(**memory, 64).has_value());
  EXPECT_TRUE(device_.zero(**memory, 64).has_error());
  EXPECT_TRUE(device_.zero(**memory, 64).has_value());
  const auto recording = device_.end_recording();
  ASSERT_TRUE(recording.has_error());
  EXPECT_EQ(recording.error().message,
            "zero failed on rank 1's emulated device: as it was told to");
  EXPECT_TRUE(device_.free(**memory).has_value());
}

TEST(CudaDevices, CountWithoutADriver_SaysWhatIsMissing) {
  const auto count = cuda_device_count(Rank{3});
  if (count) GTEST_SKIP() << "SKIPPED ALOUD: there is a driver, with " << *count << " devices";
  EXPECT_EQ(count.error().code, Code::Environment);
  EXPECT_NE(count.error().message.find("rank 3"), std::string::npos) << count.error().message;
}

}  // namespace
}  // namespace lockstep::worker::device_seam_test
