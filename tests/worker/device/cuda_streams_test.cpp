// The two streams of a GPU, on CUDA's libraries as they are emulated for tests: what follows waits,
// what does not does not, and memory that both use in no order is found out.
#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "emulated_cuda/emulated_library.h"
#include <cuda.h>
#include <gtest/gtest.h>

#include <lockstep/worker/compile/device/cuda_device.h>

namespace lockstep::worker::cuda_streams_test {
namespace {

using emulated_cuda::Library;

/// Memory of an emulated device is this process's.
template <class T>
volatile T& at(DeviceAddress address) {
  return *reinterpret_cast<volatile T*>(address);
}

class CudaStreams : public testing::Test {
 protected:
  void SetUp() override {
    if (!driver_.emulated())
      GTEST_SKIP() << "SKIPPED ALOUD: the emulated libraries are not those of this process";
    driver_.fail("", 0);
    device_ = open_cuda_device({.rank = Rank{2}}).value();
    for (DeviceAddress& block : blocks_) block = **device_->allocate(sizeof(std::int64_t));
  }
  void TearDown() override {
    if (!device_) return;
    for (DeviceAddress block : blocks_) (void)device_->free(block);
    device_.reset();
    EXPECT_EQ(driver_.live_bytes(), 0U);
    EXPECT_EQ(driver_.live_objects(), 0U);
  }

  [[nodiscard]] CUstream ranks() const {
    return static_cast<CUstream>(device_->stream(DeviceStream::Ranks));
  }
  /// As NCCL does.
  void on_ranks(CUhostFn work, void* argument) const {
    ASSERT_EQ(driver_.find<decltype(cuLaunchHostFunc)>("cuLaunchHostFunc")(ranks(), work, argument),
              CUDA_SUCCESS);
  }
  void use_on_ranks(DeviceAddress memory) const {
    driver_.find<decltype(emulated_cuda_touch)>("emulated_cuda_touch")(
        ranks(), reinterpret_cast<const void*>(memory), sizeof(std::int64_t), true);
  }
  void follow(DeviceStream which, DeviceStream leader) {
    const auto event = device_->mark(leader);
    ASSERT_TRUE(event.has_value()) << event.error().text();
    EXPECT_TRUE(device_->follow(which, *event).has_value());
    device_->release(*event);
  }

  Library driver_{"libcuda.so.1"};
  std::unique_ptr<Device> device_;
  std::array<DeviceAddress, 2> blocks_{};
};

/// A collective for which a peer does not come until `come`.
struct Collective {
  std::atomic<bool> come{false};
  DeviceAddress beside{};
  std::int64_t seen = 0;  // there when it ends
  static void run(void* argument) {
    auto& self = *static_cast<Collective*>(argument);
    while (!self.come) std::this_thread::yield();
    self.seen = at<std::int64_t>(self.beside);
  }
};

TEST_F(CudaStreams, WorkThatDoesNotFollow_IsDoneMeanwhile) {
  Collective late{.beside = blocks_[1]};
  on_ranks(&Collective::run, &late);
  EXPECT_TRUE(device_->zero(blocks_[0], sizeof(std::int64_t)).has_value());
  while (at<std::int64_t>(blocks_[0]) != 0) std::this_thread::yield();
  EXPECT_FALSE(device_->idle().value());
  follow(DeviceStream::Work, DeviceStream::Ranks);
  EXPECT_TRUE(device_->zero(blocks_[1], sizeof(std::int64_t)).has_value());
  EXPECT_FALSE(device_->idle().value());
  late.come = true;
  EXPECT_TRUE(device_->synchronise().has_value());
  EXPECT_EQ(late.seen, -1);  // nobody had written there yet
  EXPECT_EQ(at<std::int64_t>(blocks_[1]), 0);
  EXPECT_TRUE(device_->idle().value());
}

TEST_F(CudaStreams, EventThatIsUsedAgain_StillHoldsWhoWaitsForIt) {
  Collective late{.beside = blocks_[0]};
  on_ranks(&Collective::run, &late);
  follow(DeviceStream::Work, DeviceStream::Ranks);
  follow(DeviceStream::Ranks, DeviceStream::Work);  // the same event, recorded elsewhere
  EXPECT_TRUE(device_->zero(blocks_[0], sizeof(std::int64_t)).has_value());
  late.come = true;
  EXPECT_TRUE(device_->synchronise().has_value());
  EXPECT_EQ(late.seen, -1);
  EXPECT_EQ(driver_.calls().at("cuEventCreate"), 1);
}

TEST_F(CudaStreams, DownloadAndWait_CoverBoth) {
  for (const bool download : {false, true}) {
    Collective late{.beside = blocks_[0]};
    on_ranks(&Collective::run, &late);
    std::thread peer([&] { late.come = true; });
    std::int64_t home = 0;
    EXPECT_TRUE(
        (download ? device_->download(&home, blocks_[0], 0) : device_->synchronise()).has_value());
    EXPECT_TRUE(late.come);
    EXPECT_EQ(late.seen, -1);
    peer.join();
  }
}

TEST_F(CudaStreams, EventsInARecording_AreRefused) {
  const auto event = device_->mark(DeviceStream::Ranks);
  ASSERT_TRUE(event.has_value());
  ASSERT_TRUE(device_->begin_recording().has_value());
  EXPECT_TRUE(device_->follow(DeviceStream::Work, *event).has_error());
  EXPECT_TRUE(device_->end_recording().has_error());
  device_->release(*event);
}

TEST_F(CudaStreams, MemoryThatBothUseInNoOrder_IsAnError) {
  use_on_ranks(blocks_[0]);  // which Work may not have allocated yet
  const auto idle = device_->idle();
  ASSERT_TRUE(idle.has_error());
  EXPECT_EQ(idle.error().message,
            "cuStreamQuery failed on rank 2's CUDA device 0 (sm_90): CUDA_ERROR_ILLEGAL_ADDRESS "
            "(700)");
}

TEST_F(CudaStreams, MemoryThatBothUseInAnOrder_IsNone) {
  follow(DeviceStream::Ranks, DeviceStream::Work);
  use_on_ranks(blocks_[0]);
  EXPECT_TRUE(device_->zero(blocks_[1], sizeof(std::int64_t)).has_value());
  follow(DeviceStream::Work, DeviceStream::Ranks);
  EXPECT_TRUE(device_->zero(blocks_[0], sizeof(std::int64_t)).has_value());
  EXPECT_TRUE(device_->synchronise().has_value());
}

}  // namespace
}  // namespace lockstep::worker::cuda_streams_test
