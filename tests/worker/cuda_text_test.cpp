// The text of CUDA kernels, without a GPU: run on this processor against the interpreter, at sizes
// 0, 1, 2, 5 and odd large ones, planned for few and for many elements, in two orders of threads.
#include <algorithm>
#include <cstring>

#include "compiled_graph.h"
#include "graph_builder.h"
#include "launched_graph.h"
#include "op_graphs.h"
#include <gtest/gtest.h>

#include <lockstep/worker/codegen.h>
#include <lockstep/worker/op.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;

// f32: sums of thousands of elements in another order than the interpreter's, which adds one by
// one.
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

class CudaText : public testing::TestWithParam<DType> {
 protected:
  /// At each pair of sizes, planned for the hints.
  static void check(Graph graph, std::span<const std::pair<std::int64_t, std::int64_t>> sizes,
                    bool special) {
    const auto program = generate(std::move(graph), Target::Cuda);
    ASSERT_TRUE(program.has_value()) << program.error().text();
    const auto loaded = EmulatedDevice::load(*program);
    ASSERT_TRUE(loaded.has_value()) << loaded.error().text();
    EmulatedDevice& device = **loaded;
    std::mt19937_64 random(20263);
    for (const auto& [a, b] : sizes) {
      const Inputs inputs = inputs_for(random, GetParam(), a, b, special);
      const auto expected = run_interpreted(program->graph, inputs);
      if (!expected) continue;  // indices out of range: checked before kernels run
      device.set_down(false);
      const auto up = run_launched(*program, device, inputs);
      device.set_down(true);
      const auto down = run_launched(*program, device, inputs);
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
  if (GetParam() != DType::Bool) all_sizes(reduction_graph, false);
}
TEST_P(CudaText, ReductionsOfNaN_AllSizes_AsInterpreted) {
  if (is_float(GetParam())) all_sizes(reduction_graph, true);
}
TEST_P(CudaText, Indexing_AllSizes_AsInterpreted) { all_sizes(index_graph, false); }

INSTANTIATE_TEST_SUITE_P(Dtypes, CudaText,
                         testing::Values(DType::F64, DType::F32, DType::I64, DType::Bool),
                         [](const auto& p) { return std::string(dtype_name(p.param)); });

}  // namespace
}  // namespace lockstep::worker
