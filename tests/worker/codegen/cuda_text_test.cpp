// The text of CUDA kernels, without a GPU: run on this processor against the interpreter, at sizes
// 0, 1, 2, 5 and odd large ones, planned for few and for many elements, in two orders of threads.
#include <algorithm>
#include <cstring>
#include <regex>

#include "compiled_graph.h"
#include "emulated_device.h"
#include "graph_builder.h"
#include "ops/op_graphs.h"
#include <gtest/gtest.h>

#include <lockstep/worker/compile/codegen/codegen.h>
#include <lockstep/worker/compile/codegen/reduction_split.h>
#include <lockstep/worker/tensor/graph/half.h>
#include <lockstep/worker/tensor/graph/op.h>

namespace lockstep::worker::cuda_text_test {
namespace {

using shapes::Expr;

// f32: scans of thousands of elements in another order than the interpreter's.
double bound(DType dtype) { return dtype == DType::F32 ? 1e-4 : 1e-9; }

Graph with_hints(Graph graph, std::int64_t a, std::int64_t b) {
  graph.symbols.at(0).hint = a;
  graph.symbols.at(1).hint = b;
  return graph;
}

/// Bytes of every output.
bool identical(const std::vector<Array>& a, const std::vector<Array>& b) {
  return std::ranges::equal(a, b, [](const Array& x, const Array& y) {
    return x.bytes() == y.bytes() &&
           (x.bytes() == 0 || std::memcmp(x.data(), y.data(), x.bytes()) == 0);
  });
}

/// The outputs, brought to the host, so that nothing stays on the device.
Result<std::vector<Array>> run_home(Executable& executable, const Inputs& inputs) {
  auto out = run_compiled(executable, inputs);
  if (out)
    for (Array& array : *out) (void)array.data();
  return out;
}

class CudaText : public testing::TestWithParam<DType> {
 protected:
  /// At each pair of sizes, planned for the hints.
  static void check(Graph graph, std::span<const std::pair<std::int64_t, std::int64_t>> sizes,
                    bool special) {
    const auto program = generate(std::move(graph), Target::Cuda);
    ASSERT_TRUE(program.has_value()) << program.error().text();
    auto built = build_emulated(*program);
    ASSERT_TRUE(built.has_value()) << built.error().text();
    const auto device = std::make_shared<EmulatedDevice>();
    const SystemClock clock;
    const auto loaded = Executable::load(std::move(built->program), built->units, clock, device);
    ASSERT_TRUE(loaded.has_value()) << loaded.error().text();
    const std::size_t loaded_bytes = device->live_bytes();
    std::mt19937_64 random(20263);
    for (const auto& [a, b] : sizes) {
      const Inputs inputs = inputs_for(random, GetParam(), a, b, special);
      const auto expected = run_interpreted(program->graph, inputs);
      device->set_down(false);
      const auto up = run_home(**loaded, inputs);
      device->set_down(true);
      const auto down = run_home(**loaded, inputs);
      EXPECT_EQ(device->live_bytes(), loaded_bytes);
      if (!expected) {  // indices out of range
        ASSERT_TRUE(up.has_error() && down.has_error());
        EXPECT_EQ(up.error(), expected.error());
        continue;
      }
      ASSERT_TRUE(up.has_value() && down.has_value()) << (up ? down : up).error().text();
      EXPECT_TRUE(same(*up, *expected, bound(GetParam()))) << "sizes " << a << ", " << b;
      EXPECT_TRUE(identical(*up, *down)) << "depends on the order of threads: " << a << ", " << b;
    }
  }
  static void all_sizes(GraphMaker make, bool special) {
    std::vector<std::pair<std::int64_t, std::int64_t>> sizes;
    for (std::int64_t a : {0, 1, 2, 5})
      for (std::int64_t b : {0, 1, 2, 5}) sizes.emplace_back(a, b);
    const std::vector<std::pair<std::int64_t, std::int64_t>> large{{0, 3},    {3, 0},    {2, 5},
                                                                   {1, 1025}, {1025, 1}, {97, 61}};
    check(with_hints(make(GetParam(), std::nullopt), 2, 5), sizes, special);
    check(with_hints(make(GetParam(), std::nullopt), 300, 128), large, special);
  }
};

TEST_P(CudaText, Elementwise_AllSizes_AsInterpreted) { all_sizes(elementwise_graph, true); }
TEST_P(CudaText, Views_AllSizes_AsInterpreted) { all_sizes(view_graph, false); }
TEST_P(CudaText, Reductions_AllSizes_AsInterpreted) {
  if (GetParam() != DType::Bool && !is_half(GetParam())) all_sizes(reduction_graph, false);
}
TEST_P(CudaText, ReductionsOfNaN_AllSizes_AsInterpreted) {
  if (is_float(GetParam()) && !is_half(GetParam())) all_sizes(reduction_graph, true);
}
TEST_P(CudaText, Indexing_AllSizes_AsInterpreted) { all_sizes(index_graph, false); }
TEST_P(CudaText, Order_AllSizes_AsInterpreted) {
  if (GetParam() == DType::Bool || is_half(GetParam())) return;
  all_sizes(order_graph, is_float(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, CudaText,
                         testing::Values(DType::F64, DType::F32, DType::I64, DType::Bool,
                                         DType::F16, DType::BF16),
                         [](const auto& p) { return std::string(dtype_name(p.param)); });

/// Names are fingerprints.
std::string without_names(const std::string& text) {
  return std::regex_replace(text, std::regex("k_[0-9a-f]{32}"), "NAME");
}

/// Text of the kernels alone.
std::string kernels_of(const Program& program) {
  std::string out = "\n";
  for (const Kernel& kernel : program.kernels) out += kernel.text;
  return without_names(out);
}

TEST(CudaTextSnapshot, FusedElementwise_TakesFourNeighboursAtATime) {
  GraphBuilder g("fused");
  const Expr n = g.symbol("x.size(0)");
  const NodeId x = g.input("x", DType::F32, {n}), y = g.input("y", DType::F32, {n});
  g.output(g.op(Op::Relu, {g.op(Op::Add, {x, y})}));
  const Program program = generate(g.take(), Target::Cuda).value();
  EXPECT_EQ(kernels_of(program), R"(
extern "C" __global__ void __launch_bounds__(256) NAME(const float* __restrict b0, const float* __restrict b1, float* __restrict b2, long n0) {
  b0 = (const float*)__builtin_assume_aligned(b0, 16);
  b1 = (const float*)__builtin_assume_aligned(b1, 16);
  b2 = (float*)__builtin_assume_aligned(b2, 16);
  for (long t = (long)blockIdx.x * 256 + threadIdx.x; t < n0 / 4; t += (long)gridDim.x * 256) {
#pragma unroll
    for (long u = 0; u < 4; ++u) {
      const long i0 = t * 4 + u;
      const float v0 = b0[i0];
      const float v1 = b1[i0];
      const float v2 = v0 + v1;
      const float v3 = v2 < (float)0 ? (float)0 : v2;
      b2[i0] = v3;
    }
  }
  for (long i0 = n0 / 4 * 4 + (long)blockIdx.x * 256 + threadIdx.x; i0 < n0; i0 += (long)gridDim.x * 256) {
    const float v0 = b0[i0];
    const float v1 = b1[i0];
    const float v2 = v0 + v1;
    const float v3 = v2 < (float)0 ? (float)0 : v2;
    b2[i0] = v3;
  }
}
)");
}

TEST(CudaTextSnapshot, SumOfRows_SharesARowAmongThreads) {
  GraphBuilder g("rows");
  const Expr n = g.symbol("x.size(0)"), m = g.symbol("x.size(1)");
  const NodeId x = g.input("x", DType::F32, {n, m});
  g.output(g.reduce(Op::Sum, x, {1}));
  const Program program = generate(with_hints(g.take(), 100000, 512), Target::Cuda).value();
  EXPECT_EQ(kernels_of(program), R"(
extern "C" __global__ void __launch_bounds__(256) NAME(const float* __restrict b0, float* __restrict b1, long n0, long n1) {
  const long outputs = n1, runs = 1;
  __shared__ double lanes_of[256];
  const int lane = threadIdx.x % 16;
  const long items = outputs;
  for (long group = blockIdx.x; group * 16 < items; group += gridDim.x) {
    const long mine = group * 16 + threadIdx.x / 16;
    const long item = mine < items ? mine : items - 1;
    const long output = item;
    const long i0 = output;
    Terms terms;
    start_terms<false>(terms);
    for (long run = 0; run < runs; ++run) {
      const auto value = [&](long i) {
        const float v0 = b0[((i0 * n0) + i)];
        return v0;
      };
      for (long term = 0; term < row_terms(n0); ++term) {
        double total = lane_of<false, float>(n0, term, lane, value);
        lanes_of[threadIdx.x] = total;
        __syncthreads();
        for (int width = 8; width > 0; width /= 2) {
          if (lane < width) {
            join<false>(total, lanes_of[threadIdx.x + width]);
            lanes_of[threadIdx.x] = total;
          }
          __syncthreads();
        }
        if (lane == 0) add_term<false>(terms, total);
      }
    }
    if (lane == 0 && mine < items) b1[output] = (float)total_of<false>(terms);
  }
}
)");
}

TEST(CudaPlan, SumOfAll_IsThreeLaunchesOverSizes) {
  GraphBuilder g("all");
  const Expr n = g.symbol("x.size(0)"), m = g.symbol("x.size(1)");
  const NodeId x = g.input("x", DType::F32, {n, m});
  g.output(g.reduce(Op::Sum, x, {0, 1}));
  const std::string text = generate(with_hints(g.take(), 1000, 1000), Target::Cuda).value().text();
  EXPECT_EQ(without_names(text.substr(0, text.find("unit 0"))),
            R"(program all: 2 nodes compiled, 0 interpreted, 3 steps, 3 kernels in 1 units
  @0: in f32 of s0*s1, value of %0, steps 0-0
  @1: arena f64 of (s0*s1) // 1024 + 2, value of %1, steps 0-1
  @2: arena f64 of (s0*s1 + 1024) // 32768 + 1, value of %1, steps 1-2
  @3: out f32 of 1, value of %1, steps 2-2
  0: kernel NAME @0 @1 (s0*s1) on Max(Min((s0*s1 + 1024) // 16384 + 1, 4096), 1) blocks of 256
  1: kernel NAME @1 @2 (s0*s1) on Max(Min((s0*s1 + 1024) // 8388608 + 1, 4096), 1) blocks of 256
  2: kernel NAME @3 @2 (s0*s1) on 1 blocks of 256
)");
}

TEST(CudaPlan, AnyHint_GivesTheSameTextAgain_AndOthersOnlyOtherSplits) {
  const auto text = [](std::int64_t a, std::int64_t b) {
    return generate(with_hints(reduction_graph(DType::F32, std::nullopt), a, b), Target::Cuda)
        .value()
        .text();
  };
  EXPECT_EQ(text(300, 128), text(300, 128));
  EXPECT_NE(text(300, 128), text(2, 5));
  // Of a hint only powers of two are in the text.
  EXPECT_EQ(text(300, 128), text(301, 129));
}

TEST(SplitReduction, AnySizes_KeepEveryThreadInWork) {
  for (std::int64_t outputs : {0, 1, 2, 31, 1000, 100000, 10000000})
    for (std::int64_t reduced : {0, 1, 31, 32, 2047, 2048, 1000000, 1 << 30})
      for (const bool adjacent : {false, true}) {
        const Split split = split_reduction(outputs, reduced, adjacent);
        EXPECT_TRUE(split.lanes == 1 || split.lanes == 32 || split.lanes == 256);
        EXPECT_TRUE(adjacent || split.lanes == 1);
        EXPECT_EQ(split.pieces & (split.pieces - 1), 0);
        EXPECT_GE(split.pieces, 1);
        EXPECT_GE(std::max<std::int64_t>(reduced, 1), split.lanes);
        if (split.pieces > 1) {
          EXPECT_GE(reduced, split.pieces * split.lanes * 16);
          EXPECT_LE(outputs * split.pieces * split.lanes, std::int64_t{1} << 18);
        }
      }
}

TEST(SplitScan, FewLongRowsByGroups_ManyOrShortOnesAlone) {
  EXPECT_FALSE(split_scan(1, 127));
  EXPECT_TRUE(split_scan(1, 128));
  EXPECT_TRUE(split_scan(2048, 1 << 20));
  EXPECT_FALSE(split_scan(2049, 1 << 20));
}

}  // namespace
}  // namespace lockstep::worker::cuda_text_test
