// CUDA kernels on a GPU against the interpreter, and what else a device does. Skipped, and said
// aloud, where there is none.
#include <limits>
#include <thread>

#include "compiled_graph.h"
#include "device_suite.h"
#include "graph_builder.h"
#include "ops/op_graphs.h"
#include <gtest/gtest.h>

#include <lockstep/worker/compile/codegen/codegen.h>
#include <lockstep/worker/compile/device/cuda_device.h>
#include <lockstep/worker/compile/toolchain/nvrtc_toolchain.h>
#include <lockstep/worker/tensor/graph/half.h>
#include <lockstep/worker/tensor/graph/op.h>

namespace lockstep::worker::gpu_test {
namespace {

class Gpu : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    auto opened = open_cuda_device({});
    if (!opened) GTEST_SKIP() << "SKIPPED ALOUD: " << opened.error().message;
    device_ = *std::move(opened);
  }
  /// `spoil`: one index of each run is out of range.
  void check(GraphMaker make, std::int64_t hint, bool special, bool spoil = false) {
    Graph graph = make(GetParam(), std::nullopt);
    for (SymbolBinding& binding : graph.symbols) binding.hint = hint;
    const Program program = generate(std::move(graph), Target::Cuda).value();
    auto toolchain = open_nvrtc({.architecture = device_->architecture()});
    ASSERT_TRUE(toolchain.has_value()) << toolchain.error().text();
    std::vector<Bytes> units;
    for (const std::string& unit : program.units) {
      auto built = (*toolchain)->build(unit);
      ASSERT_TRUE(built.has_value()) << built.error().text();
      units.push_back(*std::move(built));
    }
    const auto loaded = Executable::load(program, units, clock_, device_);
    ASSERT_TRUE(loaded.has_value()) << loaded.error().text();
    std::mt19937_64 random(20264);
    for (const auto& [a, b] : {std::pair{0, 0},
                               {0, 5},
                               {5, 0},
                               {1, 1},
                               {2, 5},
                               {5, 2},
                               {1, 10007},
                               {10007, 1},
                               {1031, 257}}) {
      Inputs inputs = inputs_for(random, GetParam(), a, b, special);
      if (Array& rows = inputs["rows"]; spoil && rows.elements() > 0) {
        const std::int64_t bad[] = {-1, a, std::numeric_limits<std::int64_t>::min()};
        rows.data_as<std::int64_t>()[random() % static_cast<std::uint64_t>(b)] = bad[random() % 3];
      }
      const auto expected = run_interpreted(program.graph, inputs);
      const auto got = run_compiled(**loaded, inputs);
      if (!expected) {  // indices out of range
        ASSERT_TRUE(got.has_error());
        EXPECT_EQ(got.error(), expected.error());
        continue;
      }
      ASSERT_TRUE(got.has_value()) << got.error().text();
      EXPECT_TRUE(same(*got, *expected, GetParam() == DType::F32 ? 1e-3 : 1e-9))
          << "sizes " << a << ", " << b;
    }
  }
  SystemClock clock_;
  std::shared_ptr<Device> device_;
};

TEST_P(Gpu, Elementwise_AsInterpreted) { check(elementwise_graph, 5, true); }
TEST_P(Gpu, Views_AsInterpreted) { check(view_graph, 5, false); }
TEST_P(Gpu, Reductions_AsInterpreted) {
  if (GetParam() == DType::Bool || is_half(GetParam())) return;  // reductions take numbers
  for (std::int64_t hint : {2, 300, 4096}) check(reduction_graph, hint, is_float(GetParam()));
}
TEST_P(Gpu, Indexing_AsInterpreted) {
  for (std::int64_t hint : {2, 300}) check(index_graph, hint, false);
}

TEST_P(Gpu, Order_AsInterpreted) {
  if (GetParam() == DType::Bool || is_half(GetParam())) return;
  for (std::int64_t hint : {2, 300}) check(order_graph, hint, is_float(GetParam()));
}
TEST_P(Gpu, IndexingOutOfRange_AsInterpreted) {
  for (std::int64_t hint : {2, 100000}) check(index_graph, hint, false, true);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Gpu,
                         testing::Values(DType::F64, DType::F32, DType::I64, DType::Bool,
                                         DType::F16, DType::BF16),
                         [](const auto& p) { return std::string(dtype_name(p.param)); });

class GpuSeam : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = open_cuda_device({});
    if (!opened) GTEST_SKIP() << "SKIPPED ALOUD: " << opened.error().message;
    device_ = *std::move(opened);
  }
  std::unique_ptr<Device> device_;
};

/// The least that shows that text becomes a kernel and the kernel runs.
TEST_F(GpuSeam, OneKernel_AsInterpreted) {
  GraphBuilder builder("one_kernel");
  const NodeId x = builder.input("x", DType::F64, {builder.symbol("x.size(0)")});
  builder.output(builder.op(Op::Add, {builder.op(Op::Mul, {x, x}), x}));
  const Program program = generate(builder.take(), Target::Cuda).value();
  auto toolchain = open_nvrtc({.architecture = device_->architecture()});
  ASSERT_TRUE(toolchain.has_value()) << toolchain.error().text();
  const auto unit = (*toolchain)->build(program.units.at(0));
  ASSERT_TRUE(unit.has_value()) << unit.error().text();
  const SystemClock clock;
  const std::vector<Bytes> units{*unit};
  const auto loaded = Executable::load(program, units, clock, std::move(device_));
  ASSERT_TRUE(loaded.has_value()) << loaded.error().text();
  std::mt19937_64 random(17);
  for (const std::int64_t n : {0, 1, 100003})
    EXPECT_TRUE(agree(**loaded, {{"x", random_array(random, DType::F64, {n})}}, 1e-12)) << n;
}

TEST_F(GpuSeam, Products_AsTheHosts) { expect_products(*device_); }
TEST_F(GpuSeam, Zeros_WhereTheyAreAskedFor) { expect_zeros_and_copies(*device_); }
TEST_F(GpuSeam, Recordings_AreDoneWhenLaunched) { expect_recordings(*device_); }
TEST_F(GpuSeam, FlawedRecordings_AreRefused) { expect_flawed_recordings_refused(*device_); }

TEST_F(GpuSeam, AnotherThread_WorksOnTheSameDevice) {
  std::thread([&] { expect_recordings(*device_); }).join();
  expect_zeros_and_copies(*device_);
}

TEST_F(GpuSeam, Names_AreTheDevicesOwn) {
  EXPECT_TRUE(device_->unit_name().starts_with("GPU-")) << device_->unit_name();
  EXPECT_EQ(device_->unit_name().size(), 40U);
  EXPECT_NE(device_->product_identity().find(device_->architecture()), std::string::npos)
      << device_->product_identity();
  EXPECT_EQ(device_->ordinal(), 0);
  EXPECT_NE(device_->stream(DeviceStream::Work), nullptr);
  EXPECT_NE(device_->stream(DeviceStream::Ranks), device_->stream(DeviceStream::Work));
  const auto count = cuda_device_count(Rank{0});
  ASSERT_TRUE(count.has_value()) << count.error().text();
  EXPECT_GE(*count, 1);
}

}  // namespace
}  // namespace lockstep::worker::gpu_test
