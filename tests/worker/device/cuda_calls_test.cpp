// Every call of CUDA's that fails, on CUDA's libraries as they are emulated for tests: the code
// that calls them is the one that runs on GPUs.
#include <functional>
#include <map>
#include <set>

#include "device_suite.h"
#include "emulated_cuda/emulated_library.h"
#include <gtest/gtest.h>

#include <lockstep/worker/compile/device/cuda_device.h>
#include <lockstep/worker/compile/toolchain/nvrtc_toolchain.h>

namespace lockstep::worker::cuda_calls_test {
namespace {

using emulated_cuda::Library;

constexpr Rank kRank{2};

struct Freed {
  Device& device;
  DeviceAddress at;
  ~Freed() { (void)device.free(at); }
};

constexpr std::int64_t kCount = 6;
const char* const kText =
    "extern \"C\" __global__ void __launch_bounds__(256) twice(const double* x, double* y, long n) "
    "{\n  for (long i = blockIdx.x * 256L + threadIdx.x; i < n; i += gridDim.x * 256L) y[i] = 2 * "
    "x[i];\n}\n";

Result<Bytes> build(const std::string& text, const std::string& architecture = "sm_90") {
  auto toolchain = open_nvrtc({.architecture = architecture, .rank = kRank});
  if (!toolchain) return toolchain.error();
  return (*toolchain)->build(text);
}

Result<void> follow(Device& device, DeviceStream which, DeviceStream leader) {
  const auto event = device.mark(leader);
  if (!event) return event.error();
  auto done = device.follow(which, *event);
  device.release(*event);
  return done;
}

/// 2 x, recorded, then multiplied by y: everything that a device can be asked for, in one session
/// that ends where something fails.
Result<std::vector<double>> session(const Bytes& object) {
  auto opened = open_cuda_device({.ordinal = 0, .rank = kRank});
  if (!opened) return opened.error();
  Device& device = **opened;
  struct Unloaded {
    Device& device;
    std::optional<DeviceModule> module;
    std::optional<DeviceRecording> recording;
    ~Unloaded() {
      if (recording) device.destroy(*recording);
      if (module) device.unload(*module);
    }
  } left{device, {}, {}};
  std::vector<std::unique_ptr<Freed>> blocks;
  for (int i = 0; i < 3; ++i) {
    auto taken = device.allocate(kCount * sizeof(double));
    if (!taken) return taken.error();
    if (!*taken) return Status{Code::Environment, "no memory", {}, {}};
    blocks.push_back(std::unique_ptr<Freed>(new Freed{device, **taken}));
  }
  const DeviceAddress x = blocks[0]->at, y = blocks[1]->at, z = blocks[2]->at;
  auto module = device.load(object);
  if (!module) return module.error();
  left.module = *module;
  auto kernel = device.kernel(*module, "twice");
  if (!kernel) return kernel.error();
  const std::vector<double> values{1, 2, 3, 4, 5, 6};
  const DeviceAddress buffers[] = {x, y};
  const std::int64_t numbers[] = {kCount};
  const Product product{.dtype = DType::F64, .a = x, .b = y, .out = z, .m = 3, .k = 2, .n = 1};
  std::vector<double> out(3);
  std::vector<std::function<Result<void>()>> steps{
      [&] { return device.upload(x, values.data(), kCount * sizeof(double)); },
      [&] { return follow(device, DeviceStream::Ranks, DeviceStream::Work); },
      [&] { return follow(device, DeviceStream::Work, DeviceStream::Ranks); },
      [&] { return device.begin_recording(); },
      [&] { return device.zero(y, kCount * sizeof(double)); },
      [&] { return device.launch(*kernel, 1, 256, buffers, numbers); },
      [&]() -> Result<void> {
        auto recording = device.end_recording();
        if (!recording) return recording.error();
        left.recording = *recording;
        return {};
      },
      [&] { return device.launch(*left.recording); },
      [&]() -> Result<void> {
        const auto idle = device.idle();
        if (!idle) return idle.error();
        return {};
      },
      [&] { return device.multiply(product); },
      [&] { return device.synchronise(); },
      [&] { return device.download(out.data(), z, out.size() * sizeof(double)); }};
  for (const auto& step : steps)
    if (auto done = step(); !done) {
      // What was begun is ended, whatever became of it, and waited for.
      if (auto recording = device.end_recording()) device.destroy(*recording);
      (void)device.synchronise();
      return done.error();
    }
  return out;
}

bool is_one_sentence(const std::string& text) {
  return !text.empty() && text.find('\n') == std::string::npos && text.back() != '.' &&
         text.find(". ") == std::string::npos;
}

/// What gives something back has nobody to tell; neither have contexts that are entered for it.
/// With a driver that does not say its version the newest libraries are tried.
bool may_fail_in_silence(const std::string& call) {
  static const std::set<std::string> quiet{
      "cuMemFreeAsync",  "cuStreamDestroy",    "cuEventDestroy", "cuDevicePrimaryCtxRelease",
      "cuModuleUnload",  "cuGraphExecDestroy", "cublasDestroy",  "cuCtxGetCurrent",
      "cuCtxSetCurrent", "cuDriverGetVersion"};
  return quiet.contains(call);
}

class CudaCalls : public testing::Test {
 protected:
  void SetUp() override {
    for (const Library& library : {driver_, cublas_, nvrtc_})
      if (!library.emulated())
        GTEST_SKIP() << "SKIPPED ALOUD: the emulated libraries are not those of this process";
    driver_.fail("", 0);
    cublas_.fail("", 0);
    nvrtc_.fail("", 0);
  }
  void expect_nothing_left() const {
    EXPECT_EQ(driver_.live_bytes(), 0U);
    EXPECT_EQ(driver_.live_objects(), 0U);
  }
  /// Fails each call of the library that a session makes, in turn.
  void expect_failures_told(const Library& library, int least) {
    const auto object = build(kText);
    ASSERT_TRUE(object.has_value()) << object.error().text();
    library.fail("", 0);
    const auto expected = session(*object);
    ASSERT_TRUE(expected.has_value()) << expected.error().text();
    EXPECT_EQ(*expected, (std::vector<double>{10, 22, 34}));
    expect_nothing_left();
    const auto all = library.calls();
    EXPECT_GE(static_cast<int>(all.size()), least);
    for (const auto& [call, count] : all)
      for (int nth = 1; nth <= count; ++nth) {
        if (call == "kernel" || call == "cuLaunchHostFunc") continue;  // the libraries' own
        SCOPED_TRACE(testing::Message() << call << ":" << nth);
        library.fail(call, nth);
        const auto got = session(*object);
        expect_nothing_left();
        if (got) {
          EXPECT_TRUE(may_fail_in_silence(call));
          EXPECT_EQ(*got, *expected);
          continue;
        }
        EXPECT_EQ(got.error().code, Code::Environment);
        EXPECT_TRUE(is_one_sentence(got.error().message)) << got.error().message;
        EXPECT_NE(got.error().message.find(call + " failed on rank 2's CUDA device 0"),
                  std::string::npos)
            << got.error().message;
      }
    library.fail("", 0);
    EXPECT_EQ(session(*object).value(), *expected);
  }

  Library driver_{"libcuda.so.1"}, cublas_{EMULATED_CUBLAS}, nvrtc_{EMULATED_NVRTC};
};

TEST_F(CudaCalls, OfTheDriver_EachFailureIsOneSentenceAndLeavesNothing) {
  expect_failures_told(driver_, 25);
}

TEST_F(CudaCalls, OfCublas_EachFailureIsOneSentenceAndLeavesNothing) {
  expect_failures_told(cublas_, 6);
}

TEST_F(CudaCalls, OfNvrtc_EachFailureIsOneSentence) {
  for (const char* text : {kText, "no text for kernels"}) {
    nvrtc_.fail("", 0);
    const bool sound = build(text).has_value();
    EXPECT_EQ(sound, std::string(text) == kText);
    for (const auto& [call, count] : nvrtc_.calls())
      for (int nth = 1; nth <= count; ++nth) {
        SCOPED_TRACE(testing::Message() << call << ":" << nth);
        nvrtc_.fail(call, nth);
        const auto got = build(text);
        ASSERT_TRUE(got.has_error());
        EXPECT_TRUE(is_one_sentence(got.error().message)) << got.error().message;
        EXPECT_NE(got.error().message.find("rank 2 for sm_90"), std::string::npos)
            << got.error().message;
        // Text that is wrong stays so, whatever happens to what is said of it.
        const bool told = sound || got.error().code != Code::CompileError;
        const std::string failed = told ? call + " failed" : "nvrtcCompileProgram failed";
        EXPECT_NE(got.error().message.find(failed), std::string::npos) << got.error().message;
      }
  }
}

TEST_F(CudaCalls, OnADriverOfEitherMajor_GoToTheLibrariesOfThatMajor) {
  for (const std::string major : {"12", "13"}) {
    ASSERT_EQ(::setenv("EMULATED_CUDA_VERSION", (major + "080").c_str(), 1), 0);
    const auto toolchain = open_nvrtc({.architecture = "sm_90"}).value();
    EXPECT_EQ(toolchain->identity().rfind("NVRTC " + major + ".999\n", 0), 0U)
        << toolchain->identity();
    const auto device = open_cuda_device({.rank = kRank}).value();
    EXPECT_EQ(device->product_identity().rfind("cuBLAS " + major + "9999, ", 0), 0U)
        << device->product_identity();
    const auto got = session(toolchain->build(kText).value());
    ASSERT_TRUE(got.has_value()) << got.error().text();
    EXPECT_EQ(*got, (std::vector<double>{10, 22, 34}));
  }
  ASSERT_EQ(::unsetenv("EMULATED_CUDA_VERSION"), 0);
  expect_nothing_left();
}

TEST_F(CudaCalls, ThatAllWork_DoWhatADeviceHasTo) {
  {
    const auto device = open_cuda_device({.rank = kRank}).value();
    expect_products(*device);
    expect_zeros_and_copies(*device);
    expect_flawed_recordings_refused(*device);
  }
  expect_nothing_left();
}

TEST_F(CudaCalls, KernelThatFails_IsTheErrorOfALaterCall) {
  const auto object = build(kText);
  ASSERT_TRUE(object.has_value()) << object.error().text();
  driver_.fail("kernel", 1);
  const auto got = session(*object);
  ASSERT_TRUE(got.has_error());
  // Whichever comes when it is known: the driver's say LAUNCH_FAILED, cuBLAS's EXECUTION_FAILED.
  EXPECT_NE(got.error().message.find(" failed on rank 2's CUDA device 0 (sm_90): CU"),
            std::string::npos)
      << got.error().message;
  EXPECT_EQ(got.error().message.find("cuLaunchKernel"), std::string::npos);
  expect_nothing_left();
}

TEST_F(CudaCalls, LittleMemory_IsToldWhereItIsMissing) {
  driver_.set_memory(1000);
  const auto without = open_cuda_device({.rank = kRank});
  driver_.set_memory(std::size_t{1} << 30);
  ASSERT_TRUE(without.has_error());
  EXPECT_EQ(without.error().message,
            "rank 2's CUDA device 0 (sm_90) has no memory for the 33554432 bytes that products "
            "work in");
  expect_nothing_left();
  {
    const auto device = open_cuda_device({.rank = kRank}).value();
    const auto huge = device->allocate(std::size_t{1} << 40);
    ASSERT_TRUE(huge.has_value());
    EXPECT_FALSE(huge->has_value());
  }
  expect_nothing_left();
}

TEST_F(CudaCalls, MemoryThatIsFreed_IsKeptUnlessTheDeviceIsShared) {
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  const auto device = open_cuda_device({.rank = kRank}).value();
  const auto freed = [&] {
    EXPECT_TRUE(device->free(**device->allocate(kBytes)).has_value());
    EXPECT_TRUE(device->synchronise().has_value());
    return driver_.kept_bytes();
  };
  EXPECT_FALSE(device->shared());
  EXPECT_GE(freed(), kBytes);
  EXPECT_TRUE(device->share().has_value());
  EXPECT_TRUE(device->shared());
  EXPECT_EQ(freed(), 0U);
  driver_.fail("cuMemPoolSetAttribute", 1);
  const auto refused = device->share();
  ASSERT_TRUE(refused.has_error());
  EXPECT_TRUE(refused.error().message.starts_with(
      "cuMemPoolSetAttribute failed on rank 2's CUDA device 0 (sm_90): "))
      << refused.error().message;
  driver_.fail("", 0);
}

TEST_F(CudaCalls, ObjectOfAnotherArchitecture_IsRefused) {
  const auto object = build(kText, "sm_80");
  ASSERT_TRUE(object.has_value()) << object.error().text();
  const auto got = session(*object);
  ASSERT_TRUE(got.has_error());
  EXPECT_EQ(got.error().message,
            "cuModuleLoadData failed on rank 2's CUDA device 0 (sm_90): "
            "CUDA_ERROR_NO_BINARY_FOR_GPU (209)");
  expect_nothing_left();
}

TEST_F(CudaCalls, TwoDevicesOfOneThread_EachWorkOnTheirOwn) {
  EXPECT_EQ(cuda_device_count(kRank).value(), 2);
  {
    const auto first = open_cuda_device({.ordinal = 0, .rank = kRank}).value();
    const auto second = open_cuda_device({.ordinal = 1, .rank = kRank}).value();
    EXPECT_NE(first->unit_name(), second->unit_name());
    EXPECT_EQ(first->product_identity(), second->product_identity());
    const Freed a{*first, **first->allocate(8)}, b{*second, **second->allocate(8)};
    const std::int64_t one = 1, two = 2;
    std::int64_t got_one = 0, got_two = 0;
    EXPECT_TRUE(first->upload(a.at, &one, 8).has_value());
    EXPECT_TRUE(second->upload(b.at, &two, 8).has_value());
    EXPECT_TRUE(first->download(&got_one, a.at, 8).has_value());
    EXPECT_TRUE(second->download(&got_two, b.at, 8).has_value());
    EXPECT_EQ(got_one, 1);
    EXPECT_EQ(got_two, 2);
    expect_recordings(*first);
    expect_recordings(*second);
  }
  expect_nothing_left();
  const auto third = open_cuda_device({.ordinal = 2, .rank = kRank});
  ASSERT_TRUE(third.has_error());
  EXPECT_EQ(third.error().message,
            "cuDeviceGet failed on rank 2's CUDA device 2: CUDA_ERROR_INVALID_DEVICE (101)");
}

}  // namespace
}  // namespace lockstep::worker::cuda_calls_test
