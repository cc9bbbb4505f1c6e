// Scans of floats: the same bits wherever they are made, and how far they are off.
#include <cmath>
#include <limits>
#include <random>

#include "graph_builder.h"
#include "order_cases.h"
#include <gtest/gtest.h>

namespace lockstep::worker::scan_order_test {
namespace {

using namespace order_cases;

Graph scans(DType dtype, const std::vector<Op>& ops, const std::vector<I>& hints) {
  GraphBuilder g("scans");
  const Expr rows = g.symbol("x.size(0)"), n = g.symbol("x.size(1)");
  const NodeId x = g.input("x", dtype, {rows, n}), square = g.op(Op::Mul, {x, x});
  for (const Op op : ops)
    for (const NodeId of : {x, square}) g.output(g.op(op, {of}));
  Graph graph = g.take();
  for (std::size_t i = 0; i < hints.size(); ++i) graph.symbols.at(i).hint = hints[i];
  return graph;
}

class ScanOrder : public testing::TestWithParam<DType> {};

TEST_P(ScanOrder, AnySizes_SameBitsInterpretedCompiledAndOnADevice) {
  const std::vector<Op> ops{Op::Cumsum, Op::Cumprod};
  const std::vector<std::vector<I>> hints{{5, 7}, {3, 4000}, {1, 100000}};
  const auto compiled = compile(scans(GetParam(), ops, hints[0]));
  std::vector<std::unique_ptr<OnDevice>> planned;
  for (const auto& each : hints)
    planned.push_back(std::make_unique<OnDevice>(scans(GetParam(), ops, each)));
  const unsigned seed = 20281;
  std::mt19937_64 random(seed);
  for (const std::vector<I>& sizes : {std::vector<I>{0, 3}, {3, 0}, {1, 1}, {2, 31}, {3, 32}, {2, 33},
                                      {1, 1023}, {2, 1024}, {1, 1025}, {2, 5000}, {1, 70'000}}) {
    Inputs inputs;
    inputs["x"] = elements(random, GetParam(), sizes);
    const auto expected = run_interpreted(compiled->program().graph, inputs).value();
    std::vector<std::vector<Array>> found{run_compiled(*compiled, inputs).value()};
    for (const auto& each : planned) found.push_back(each->run(inputs));
    for (std::size_t at = 0; at < found.size(); ++at)
      for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_TRUE(identical(found[at][i], expected[i]))
            << "sizes " << sizes[0] << " " << sizes[1] << ", output " << i << ", program " << at
            << ", seed " << seed;
  }
}

/// c of the bound in language/README.md: c u log2(n) times the sum of absolute values.
double bound_factor(DType dtype) { return dtype == DType::F32 ? 2 : 7; }

TEST_P(ScanOrder, AdversarialData_EveryElementWithinTheStatedBound) {
  const double unit = unit_of(GetParam());
  const auto compiled = compile(scans(GetParam(), {Op::Cumsum}, {}));
  for (const Data& data : kData)
    for (const I n : {2, 31, 33, 1000, 4096, 100'003, 10'000'000}) {
      if (n > 1'000'000 && GetParam() == DType::F64) continue;
      Inputs inputs;
      Array x(GetParam(), {1, n});
      for (I i = 0; i < n; ++i) x.set(i, data.at(i));
      inputs["x"] = x;
      const auto out = run_compiled(*compiled, inputs).value();
      long double sum = 0, size = 0;
      for (I i = 0; i < n; ++i) {
        sum += static_cast<long double>(x.at(i));
        size += std::abs(static_cast<long double>(x.at(i)));
        const long double off = std::abs(static_cast<long double>(out[0].at(i)) - sum);
        const double places = std::max(1.0, std::log2(static_cast<double>(i + 1)));
        ASSERT_LE(off, bound_factor(GetParam()) * unit * places * size +
                           static_cast<long double>(GetParam() == DType::F32 ? 0x1p-149 : 0))
            << data.name << ", " << i << " of " << n;
      }
    }
}

// 2^24 and one more: a sum in f32 would stop here.
TEST_P(ScanOrder, OnesAndNumbersThatOutgrowThem_AreCounted) {
  const auto compiled = compile(scans(GetParam(), {Op::Cumsum}, {}));
  const I n = (1 << 24) + 4;
  Inputs inputs;
  Array x(GetParam(), {1, n});
  for (I i = 0; i < n; ++i) x.set(i, 1);
  inputs["x"] = std::move(x);
  EXPECT_EQ(run_compiled(*compiled, inputs).value()[0].at(n - 1), static_cast<double>(n));
}

// Rising elements are a new largest one at each step, falling ones none.
TEST_P(ScanOrder, LogSums_WithinTheStatedBoundOnEveryTarget) {
  const std::vector<I> hints{1, 100'000};
  const auto compiled = compile(scans(GetParam(), {Op::LogCumsumExp}, hints));
  OnDevice device(scans(GetParam(), {Op::LogCumsumExp}, hints));
  const I n = 200'000;
  const double unit = unit_of(GetParam());
  const std::pair<const char*, double (*)(I)> kinds[] = {
      {"rising", [](I i) { return 1e-5 * static_cast<double>(i); }},
      {"falling", [](I i) { return -1e-5 * static_cast<double>(i); }},
      {"equal and large", [](I) { return 1e6; }},
      {"random", [](I i) { return 8 * uniform(i) - 100; }}};
  for (const auto& [name, at] : kinds) {
    Inputs inputs;
    Array x(GetParam(), {1, n});
    for (I i = 0; i < n; ++i) x.set(i, at(i));
    inputs["x"] = x;
    const std::vector<Array> found[] = {run_compiled(*compiled, inputs).value(), device.run(inputs),
                                        run_interpreted(compiled->program().graph, inputs).value()};
    long double most = -std::numeric_limits<long double>::infinity(), sum = 0;
    for (I i = 0; i < n; ++i) {
      const auto now = static_cast<long double>(x.at(i)), top = std::max(most, now);
      sum = sum * std::exp(most - top) + std::exp(now - top);
      most = top;
      const long double right = most + std::log(sum);
      for (const auto& each : found)
        ASSERT_LE(std::abs(static_cast<long double>(each[0].at(i)) - right),
                  unit * (7 * std::max(1.0, std::log2(static_cast<double>(i + 1))) + 2 +
                          2 * static_cast<double>(std::abs(right))))
            << name << ", " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, ScanOrder, testing::Values(DType::F32, DType::F64),
                         [](const auto& p) { return std::string(dtype_name(p.param)); });

}  // namespace
}  // namespace lockstep::worker::scan_order_test
