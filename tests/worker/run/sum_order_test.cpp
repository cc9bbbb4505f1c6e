// Sums and products of floats: the same bits wherever they are made, and how far they are off.
#include <cmath>
#include <random>

#include "compiled_graph.h"
#include "graph_builder.h"
#include "order_cases.h"
#include <gtest/gtest.h>

#include <lockstep/worker/compile/sums/sum_order.h>

namespace lockstep::worker::sum_order_test {
namespace {

using namespace order_cases;

/// Of each choice of three dims, of elements in memory, of ones that are made on the way, and of
/// ones that no single loop goes over.
Graph all_sums(DType dtype, const std::vector<I>& hints) {
  GraphBuilder g("sums");
  const Expr a = g.symbol("x.size(0)"), b = g.symbol("x.size(1)"), c = g.symbol("x.size(2)");
  const NodeId x = g.input("x", dtype, {a, b, c}), row = g.input("row", dtype, {a, Expr(1), c});
  const NodeId square = g.op(Op::Mul, {x, x});
  const NodeId apart = g.op(Op::Mul, {x, g.expand(row, {a, b, c})});
  for (const Op op : {Op::Sum, Op::Prod})
    for (const NodeId of : {x, square, apart})
      for (const auto& dims :
           {GraphBuilder::Dims{}, {0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}, {0, 1, 2}})
        g.output(g.reduce(op, of, dims));
  Graph graph = g.take();
  for (std::size_t i = 0; i < 3; ++i) graph.symbols.at(i).hint = hints[i];
  return graph;
}

class SumOrder : public testing::TestWithParam<DType> {};

TEST_P(SumOrder, AnyDims_SameBitsInterpretedCompiledAndOnADevice) {
  const std::vector<std::vector<I>> hints{{2, 3, 5}, {3, 700, 40}, {1, 2, 100000}, {4000, 300, 2}};
  const auto compiled = compile(all_sums(GetParam(), hints[0]));
  std::vector<std::unique_ptr<OnDevice>> planned;
  for (const auto& each : hints)
    planned.push_back(std::make_unique<OnDevice>(all_sums(GetParam(), each)));
  const std::vector<std::vector<I>> all{
      {0, 2, 3},   {2, 0, 3},    {2, 3, 0},    {1, 1, 1},   {2, 3, 5},   {5, 7, 16},   {3, 15, 17},
      {2, 33, 31}, {1, 1, 5000}, {3, 2, 2100}, {2, 700, 3}, {300, 9, 1}, {1, 40, 1025}};
  const unsigned seed = 20271;
  std::mt19937_64 random(seed);
  for (const auto& sizes : all) {
    Inputs inputs;
    inputs["x"] = elements(random, GetParam(), sizes);
    inputs["row"] = elements(random, GetParam(), {sizes[0], 1, sizes[2]});
    const auto expected = run_interpreted(compiled->program().graph, inputs).value();
    const auto on_host = run_compiled(*compiled, inputs).value();
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(identical(on_host[i], expected[i]))
          << "sizes " << sizes[0] << " " << sizes[1] << " " << sizes[2] << ", output " << i
          << ", seed " << seed;
    for (std::size_t at = 0; at < planned.size(); ++at) {
      const auto on_device = planned[at]->run(inputs);
      for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_TRUE(identical(on_device[i], expected[i]))
            << "sizes " << sizes[0] << " " << sizes[1] << " " << sizes[2] << ", output " << i
            << ", hints " << at << ", seed " << seed;
    }
  }
}

/// c of the bound in language/README.md: c u log2(n) times the sum of absolute values.
double bound_factor(DType dtype) { return dtype == DType::F32 ? 2 : 7; }

TEST_P(SumOrder, AdversarialData_WithinTheStatedBound) {
  const double unit = unit_of(GetParam());
  GraphBuilder g("sums");
  const Expr n = g.symbol("x.size(0)");
  const NodeId x = g.input("x", GetParam(), {n, Expr(3)}), y = g.input("y", GetParam(), {n});
  g.output(g.reduce(Op::Sum, x, {0}));
  g.output(g.reduce(Op::Sum, y, {0}));
  const auto compiled = compile(g.take());
  for (const Data& data : kData)
    for (const I n_now : {2, 7, 15, 16, 33, 128, 1000, 4096, 100'003, 1 << 24}) {
      if (n_now > 1'000'000 && GetParam() == DType::F64) continue;
      Inputs inputs;
      Array rows(GetParam(), {n_now}), columns(GetParam(), {n_now, 3});
      long double sum = 0, size = 0;
      for (I i = 0; i < n_now; ++i) {
        rows.set(i, data.at(i));
        for (I j = 0; j < 3; ++j) columns.set(i * 3 + j, data.at(i));
        sum += static_cast<long double>(rows.at(i));
        size += std::abs(static_cast<long double>(rows.at(i)));
      }
      inputs["x"] = std::move(columns);
      inputs["y"] = std::move(rows);
      const auto out = run_compiled(*compiled, inputs).value();
      const long double bound =
          bound_factor(GetParam()) * unit * std::log2(static_cast<double>(n_now)) * size +
          static_cast<long double>(GetParam() == DType::F32 ? 0x1p-149 : 0);
      for (const double got : {out[0].at(0), out[0].at(2), out[1].at(0)})
        EXPECT_LE(std::abs(static_cast<long double>(got) - sum),
                  data.equal && GetParam() == DType::F32
                      ? static_cast<long double>(unit) * size * (1 + 1e-3L)
                      : bound)
            << data.name << ", " << n_now;
    }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, SumOrder, testing::Values(DType::F32, DType::F64),
                         [](const auto& p) { return std::string(dtype_name(p.param)); });

// A program for any size and one for these sizes give the same bits, a size of 1 among them.
TEST_P(SumOrder, SizesAsNumbersOrAsSymbols_SameBits) {
  std::mt19937_64 random(5);
  for (const std::vector<I>& sizes :
       {std::vector<I>{700, 1, 1}, {1, 700, 1}, {9, 1, 40}, {33, 5, 1}}) {
    Inputs inputs;
    inputs["x"] = elements(random, GetParam(), sizes);
    std::vector<std::vector<Array>> found;
    for (const bool fixed : {false, true}) {
      GraphBuilder g("sums");
      GraphBuilder::Sizes of;
      for (std::size_t d = 0; d < 3; ++d)
        of.push_back(fixed ? Expr(sizes[d]) : g.symbol("x.size(" + std::to_string(d) + ")"));
      const NodeId x = g.input("x", GetParam(), of);
      for (const auto& dims : {GraphBuilder::Dims{0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}, {0, 1, 2}})
        g.output(g.reduce(Op::Sum, x, dims));
      const auto compiled = compile(g.take());
      found.push_back(run_compiled(*compiled, inputs).value());
      found.push_back(run_interpreted(compiled->program().graph, inputs).value());
    }
    for (std::size_t at = 1; at < found.size(); ++at)
      for (std::size_t i = 0; i < found[0].size(); ++i)
        EXPECT_TRUE(identical(found[at][i], found[0][i]))
            << sizes[0] << " " << sizes[1] << ", " << at << ", " << i;
  }
}

}  // namespace
}  // namespace lockstep::worker::sum_order_test
