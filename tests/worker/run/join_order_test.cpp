// Joins of rows of floats (index_add): the same bits wherever they are made, and how far they are
// off.
#include <cmath>
#include <limits>
#include <random>

#include "graph_builder.h"
#include "order_cases.h"
#include <gtest/gtest.h>

namespace lockstep::worker::join_order_test {
namespace {

using namespace order_cases;

/// Of rows that are numbers, of ones of any width and of ones of two dims; from memory and made on
/// the way, flat or not.
Graph joins(DType dtype, I narrow) {
  GraphBuilder g("joins");
  const Expr n = g.symbol("x.size(0)"), a = g.symbol("x.size(1)"), b = g.symbol("x.size(2)"),
             count = g.symbol("y.size(0)");
  const NodeId x = g.input("x", dtype, {n, a, b}), v = g.input("v", dtype, {n}),
               few = g.input("few", dtype, {n, Expr(narrow)}),
               row = g.input("row", dtype, {n, Expr(1), b}),
               index = g.input("index", DType::I64, {n}), y = g.input("y", dtype, {count});
  g.output(y);
  const NodeId of = g.checked_index(index, count);
  for (const NodeId each : {v, few, x, g.op(Op::Mul, {x, x}),
                            g.op(Op::Mul, {x, g.expand(row, {n, a, b})}), g.reshape(x, {n, a * b})})
    g.output(g.index_add(of, each, count));
  Graph graph = g.take();
  return graph;
}

class JoinOrder : public testing::TestWithParam<DType> {};

TEST_P(JoinOrder, AnySizes_SameBitsInterpretedCompiledAndOnADevice) {
  const auto compiled = compile(joins(GetParam(), 3));
  OnDevice device(joins(GetParam(), 3));
  const unsigned seed = 20282;
  std::mt19937_64 random(seed);
  for (const std::vector<I>& sizes : {std::vector<I>{0, 2, 3, 4},
                                      {5, 0, 3, 4},
                                      {1, 1, 1, 1},
                                      {50, 2, 3, 7},
                                      {300, 1, 40, 3},
                                      {40, 3, 1, 100},
                                      {9, 1, 5000, 4},
                                      {500, 2, 2, 1}}) {
    Inputs inputs;
    inputs["x"] = elements(random, GetParam(), {sizes[0], sizes[1], sizes[2]});
    inputs["v"] = elements(random, GetParam(), {sizes[0]});
    inputs["few"] = elements(random, GetParam(), {sizes[0], 3});
    for (I i = 0; i < sizes[0] * sizes[1]; ++i)  // a zero of either sign
      if (sizes[2] > 0) inputs["x"].set(i * sizes[2], i % 2 == 0 ? -0.0 : 0.0);
    inputs["row"] = elements(random, GetParam(), {sizes[0], 1, sizes[2]});
    inputs["y"] = elements(random, GetParam(), {sizes[3]});
    Array index(DType::I64, {sizes[0]});
    for (I i = 0; i < sizes[0]; ++i)
      index.set(i, static_cast<double>(random() % static_cast<std::uint64_t>(sizes[3])));
    inputs["index"] = std::move(index);
    const auto expected = run_interpreted(compiled->program().graph, inputs).value();
    const std::vector<Array> found[] = {run_compiled(*compiled, inputs).value(),
                                        device.run(inputs)};
    for (const auto& each : found)
      for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_TRUE(identical(each[i], expected[i]))
            << "sizes " << sizes[0] << " " << sizes[1] << " " << sizes[2] << ", output " << i
            << (&each == found ? ", compiled" : ", device") << ", seed " << seed;
  }
}

TEST_P(JoinOrder, AdversarialData_WithinTheStatedBound) {
  const double unit = unit_of(GetParam());
  GraphBuilder g("joins");
  const Expr n = g.symbol("v.size(0)");
  const NodeId v = g.input("v", GetParam(), {n}), x = g.input("x", GetParam(), {n, Expr(8)}),
               index = g.input("index", DType::I64, {n});
  const NodeId of = g.checked_index(index, Expr(2));
  g.output(g.index_add(of, v, Expr(2)));
  g.output(g.index_add(of, x, Expr(2)));
  const auto compiled = compile(g.take());
  for (const Data& data : kData)
    for (const I count : {1, 7, 1000, 300'001}) {
      Inputs inputs;
      Array rows(GetParam(), {count}), wide(GetParam(), {count, 8}), index_now(DType::I64, {count});
      ExactSum sum;
      long double size = 0;
      for (I i = 0; i < count; ++i) {
        rows.set(i, data.at(i));
        for (I j = 0; j < 8; ++j) wide.set(i * 8 + j, data.at(i));
        index_now.set(i, 1);
        sum.add(static_cast<long double>(rows.at(i)));
        size += std::abs(static_cast<long double>(rows.at(i)));
      }
      inputs["v"] = rows;
      inputs["x"] = wide;
      inputs["index"] = index_now;
      const auto out = run_compiled(*compiled, inputs).value();
      EXPECT_EQ(out[0].at(0), 0);
      // language/README.md
      const double of_numbers = 2 * unit,
                   of_rows = (GetParam() == DType::F32 ? 2 : 7) * unit *
                             std::max(1.0, std::log2(static_cast<double>(count)));
      const std::pair<double, double> all[] = {
          {out[0].at(1), of_numbers}, {out[1].at(8), of_rows}, {out[1].at(15), of_rows}};
      for (const auto& [got, bound] : all)
        EXPECT_LE(std::abs(static_cast<long double>(got) - sum.total()),
                  bound * size + static_cast<long double>(GetParam() == DType::F32 ? 0x1p-149 : 0))
            << data.name << ", " << count;
    }
}

// What is no number stays so, an infinity does not become one that is not, and a sum may overflow.
TEST_P(JoinOrder, InfinitiesAndNotANumber_AsOneAdditionAfterAnother) {
  GraphBuilder g("joins");
  const Expr n = g.symbol("v.size(0)");
  const NodeId v = g.input("v", GetParam(), {n}), index = g.input("index", DType::I64, {n});
  g.output(g.index_add(g.checked_index(index, Expr(4)), v, Expr(4)));
  const auto compiled = compile(g.take());
  const double inf = std::numeric_limits<double>::infinity(),
               most = GetParam() == DType::F32 ? std::numeric_limits<float>::max()
                                               : std::numeric_limits<double>::max();
  Inputs inputs;
  const double values[] = {inf, 1, most, most, inf, -inf, std::nan(""), 1};
  Array rows(GetParam(), {8}), of(DType::I64, {8});
  for (I i = 0; i < 8; ++i) {
    rows.set(i, values[i]);
    of.set(i, static_cast<double>(i / 2));
  }
  inputs["v"] = rows;
  inputs["index"] = of;
  for (const auto& out : {run_compiled(*compiled, inputs).value(),
                          run_interpreted(compiled->program().graph, inputs).value()}) {
    EXPECT_EQ(out[0].at(0), inf);
    EXPECT_EQ(out[0].at(1), inf);
    EXPECT_TRUE(std::isnan(out[0].at(2)));
    EXPECT_TRUE(std::isnan(out[0].at(3)));
  }
}

// Of equal ones the first stays, a zero of either sign among them, as torch has it.
TEST_P(JoinOrder, LargestAndLeastOfZerosAndNotANumber_SameBitsOnEveryTarget) {
  const auto made = [&] {
    GraphBuilder g("puts");
    const Expr n = g.symbol("v.size(0)");
    const NodeId x = g.input("x", GetParam(), {Expr(4)}), v = g.input("v", GetParam(), {n}),
                 index = g.input("index", DType::I64, {n});
    const NodeId of = g.checked_index(index, Expr(4));
    for (const Put mode : {Put::Max, Put::Min}) g.output(g.index_put(x, of, v, mode));
    return g.take();
  };
  const auto compiled = compile(made());
  OnDevice device(made());
  Inputs inputs;
  Array x(GetParam(), {4}), v(GetParam(), {8}), index(DType::I64, {8});
  const double first[] = {0.0, -0.0, std::nan(""), 1};
  const double values[] = {-0.0, -0.0, 0.0, 0.0, 1, 2, std::nan(""), 3};
  for (I i = 0; i < 4; ++i) x.set(i, first[i]);
  for (I i = 0; i < 8; ++i) {
    v.set(i, values[i]);
    index.set(i, static_cast<double>(i / 2));
  }
  inputs["x"] = x;
  inputs["v"] = v;
  inputs["index"] = index;
  for (const auto& out : {run_interpreted(compiled->program().graph, inputs).value(),
                          run_compiled(*compiled, inputs).value(), device.run(inputs)})
    for (const Array& each : out) {
      EXPECT_FALSE(std::signbit(each.at(0)));
      EXPECT_TRUE(std::signbit(each.at(1)));
      EXPECT_TRUE(std::isnan(each.at(2)));
      EXPECT_TRUE(std::isnan(each.at(3)));
    }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, JoinOrder, testing::Values(DType::F32, DType::F64),
                         [](const auto& p) { return std::string(dtype_name(p.param)); });

}  // namespace
}  // namespace lockstep::worker::join_order_test
