// Recordings of programs on the emulated device: the same numbers as without, at any size; which
// sizes are rounded up; the memory that recordings share; what is not recorded.
#include <algorithm>
#include <random>

#include "compiled_graph.h"
#include "emulated_device.h"
#include "graph_builder.h"
#include "ops/op_graphs.h"
#include <gtest/gtest.h>

#include <lockstep/worker/compile/codegen/codegen.h>
#include <lockstep/worker/compile/execution/captured_graphs.h>
#include <lockstep/worker/compile/execution/memory_plan.h>
#include <lockstep/worker/tensor/graph/row_symbols.h>

namespace lockstep::worker::captured_graphs_test {
namespace {

using shapes::Expr;

TEST(Slots, RandomRequests_NeverOverlapWhileBothAreThere) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    std::vector<MemoryRequest> requests;
    for (int k = 0; k < 30; ++k) {
      const std::size_t first = random() % 20;
      requests.push_back({random() % 5 == 0 ? 0 : random() % 5000, first, first + random() % 6});
    }
    const MemoryPlan plan = plan_memory(requests);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const MemoryRequest& a = requests[i];
      EXPECT_EQ(plan.offsets[i] % MemoryPlan::kAlignment, 0U);
      EXPECT_LE(plan.offsets[i] + a.bytes, plan.bytes);
      for (std::size_t j = 0; j < i; ++j) {
        const MemoryRequest& b = requests[j];
        if (a.last < b.first || b.last < a.first || a.bytes == 0 || b.bytes == 0) continue;
        EXPECT_TRUE(plan.offsets[i] + a.bytes <= plan.offsets[j] ||
                    plan.offsets[j] + b.bytes <= plan.offsets[i])
            << i << " and " << j;
      }
    }
    std::size_t most = 0;  // that is there at one time
    for (std::size_t step = 0; step < 26; ++step) {
      std::size_t there = 0;
      for (const MemoryRequest& request : requests)
        if (request.first <= step && step <= request.last) there += request.bytes;
      most = std::max(most, there);
    }
    EXPECT_GE(plan.bytes, most);
    EXPECT_LE(plan.bytes, 2 * most + 30 * MemoryPlan::kAlignment);
  }
}

/// A perceptron over rows of 8; `total`: and the sum of all that it gives.
Graph rows_graph(bool total) {
  GraphBuilder g("rows");
  const Expr n = g.symbol("x.size(0)");
  const NodeId x = g.input("x", DType::F64, {n, Expr(8)}),
               w = g.input("w", DType::F64, {Expr(8), Expr(8)});
  const NodeId table = g.input("table", DType::F64, {g.symbol("table.size(0)"), Expr(8)}),
               which = g.input("which", DType::I64, {n});
  NodeId y = x;
  for (int layer = 0; layer < 3; ++layer) y = g.op(Op::Tanh, {g.op(Op::Matmul, {y, w})});
  y = g.op(Op::Add, {y, g.op(Op::IndexSelect, {table, which})});
  g.output(g.reduce(Op::Amax, y, {1}));
  g.output(g.reshape(g.flip(y, {1}), {n, Expr(2), Expr(4)}));
  if (total) g.output(g.reduce(Op::Sum, y, {0, 1}));
  return g.take();
}

Inputs rows_inputs(std::int64_t n, std::int64_t table) {
  std::mt19937_64 random(static_cast<std::uint64_t>(n));
  Inputs inputs;
  inputs["x"] = random_array(random, DType::F64, {n, 8});
  inputs["w"] = random_array(random, DType::F64, {8, 8});
  inputs["table"] = random_array(random, DType::F64, {table, 8});
  inputs["which"] = random_indices(random, n, table);
  return inputs;
}

std::vector<std::string> row_sources(const Graph& graph) {
  std::vector<std::string> out;
  for (const shapes::Symbol& symbol : row_symbols(graph))
    for (const SymbolBinding& binding : graph.symbols)
      if (binding.symbol == symbol) out.push_back(binding.source);
  return out;
}

TEST(RowSymbols, AreThoseThatNothingMixes) {
  EXPECT_EQ(row_sources(rows_graph(false)), std::vector<std::string>{"x.size(0)"});
  // The table is looked up in; the sum takes all rows.
  EXPECT_EQ(row_sources(rows_graph(true)), std::vector<std::string>{});
  // The last row comes first.
  GraphBuilder turned("turned");
  turned.output(
      turned.flip(turned.input("x", DType::F64, {turned.symbol("x.size(0)"), Expr(8)}), {0, 1}));
  EXPECT_EQ(row_sources(turned.take()), std::vector<std::string>{});
  // Positions and differences: rows that are appended would be looked up out of range.
  for (const bool positions : {false, true}) {
    GraphBuilder g("lookup");
    const Expr n = g.symbol("which.size(0)");
    const NodeId table = g.input("table", DType::F64, {Expr(5), Expr(2)}),
                 which = g.input("which", DType::I64, {n});
    g.output(
        g.op(Op::IndexSelect, {table, positions ? g.iota({n}, 0) : g.op(Op::Sub, {which, which})}));
    EXPECT_EQ(row_sources(g.take()), std::vector<std::string>{});
  }
  for (const GraphMaker make : {&reduction_graph, &index_graph, &order_graph, &view_graph})
    EXPECT_EQ(row_sources(make(DType::F64, std::nullopt)), std::vector<std::string>{});
}

struct Recorded {
  std::shared_ptr<EmulatedDevice> device = std::make_shared<EmulatedDevice>();
  SystemClock clock;
  std::unique_ptr<Executable> program;

  Recorded(Graph graph, CaptureOptions options)
      : Recorded(build_emulated(generate(std::move(graph), Target::Cuda).value()).value(),
                 std::move(options)) {}
  Recorded(EmulatedProgram built, CaptureOptions options) {
    program = Executable::load(std::move(built.program), built.units, clock, device).value();
    program->capture(std::move(options));
  }
  void expect_agreement(const Inputs& inputs, double bound = 1e-9) {
    const auto expected = run_interpreted(program->program().graph, inputs);
    const auto got = run_compiled(*program, inputs);
    ASSERT_EQ(got.has_value(), expected.has_value()) << (got ? expected : got).error().text();
    if (got)
      EXPECT_TRUE(same(*got, *expected, bound));
    else
      EXPECT_EQ(got.error(), expected.error());
  }
};

TEST(CapturedGraphs, RowsAreRoundedUpToTheSizesGiven) {
  Recorded recorded(rows_graph(false), {.sizes = {{"x.size(0)", {16, 4}}}});
  std::vector<std::size_t> made;
  for (std::int64_t n : {3, 4, 2, 1, 5, 16, 9, 17, 40, 0, 3}) {
    SCOPED_TRACE(n);
    recorded.expect_agreement(rows_inputs(n, 5));
    made.push_back(recorded.program->captured_graphs());
  }
  // One segment: the check of the indices is in it.
  EXPECT_EQ(segments_of(recorded.program->program()).size(), 1U);
  EXPECT_EQ(made, (std::vector<std::size_t>{1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2}));
  // Another table is another size, which is taken as it is; of an empty one nothing can be had.
  recorded.expect_agreement(rows_inputs(3, 6));
  EXPECT_GT(recorded.program->captured_graphs(), 2U);
  recorded.expect_agreement(rows_inputs(3, 0));
}

TEST(CapturedGraphs, SizesThatMixAreNotRoundedUp) {
  Recorded recorded(rows_graph(true), {.sizes = {{"x.size(0)", {4}}}});
  for (std::int64_t n : {3, 1, 5}) recorded.expect_agreement(rows_inputs(n, 5));
  EXPECT_EQ(recorded.program->captured_graphs(), 0U);
  recorded.expect_agreement(rows_inputs(4, 5));
  EXPECT_EQ(recorded.program->captured_graphs(), 1U);
}

TEST(CapturedGraphs, EveryOpAtEverySize_AsInterpreted) {
  for (const GraphMaker make : {&elementwise_graph, &view_graph, &reduction_graph, &index_graph,
                                &order_graph, &product_graph}) {
    Recorded recorded(make(DType::F64, std::nullopt), {.limit = 1000});
    std::mt19937_64 random(20267);
    for (int round = 0; round < 2; ++round)
      for (const auto& [a, b] : {std::pair{0, 0}, {0, 5}, {5, 0}, {1, 1}, {2, 5}, {5, 2}, {97, 61}})
        recorded.expect_agreement(inputs_for(random, DType::F64, a, b, true), 1e-9);
    EXPECT_GT(recorded.program->captured_graphs(), 0U);
  }
}

TEST(CapturedGraphs, OneStartServesAllItsSteps) {
  const auto starts = [](std::size_t limit) {
    Recorded recorded(rows_graph(false), {.limit = limit});
    for (int k = 0; k < 2; ++k) EXPECT_TRUE(run_compiled(*recorded.program, rows_inputs(7, 5)));
    const int before = recorded.device->starts();
    EXPECT_TRUE(run_compiled(*recorded.program, rows_inputs(7, 5)));
    return recorded.device->starts() - before;
  };
  EXPECT_EQ(starts(16), 1);
  EXPECT_GT(starts(0), 6);
}

TEST(CapturedGraphs, PastTheLimit_RunsAreStartedStepByStep) {
  Recorded recorded(rows_graph(false), {.limit = 5});
  for (std::int64_t n = 1; n < 9; ++n) recorded.expect_agreement(rows_inputs(n, 5));
  EXPECT_EQ(recorded.program->captured_graphs(), 5U);
  for (std::int64_t n = 1; n < 9; ++n) recorded.expect_agreement(rows_inputs(n, 5));
}

TEST(CapturedGraphs, ShareTheirMemory) {
  Recorded recorded(rows_graph(false), {.limit = 100});
  recorded.expect_agreement(rows_inputs(64, 5));
  const std::size_t one = recorded.device->live_bytes();
  for (std::int64_t n = 1; n < 64; n += 7) recorded.expect_agreement(rows_inputs(n, 5));
  EXPECT_EQ(recorded.device->live_bytes(), one);
  recorded.program.reset();
  EXPECT_EQ(recorded.device->live_bytes(), 0U);
}

TEST(CapturedGraphs, WithoutMemoryForThem_RunsAreStartedStepByStep) {
  Recorded plain(rows_graph(false), {.limit = 0});
  plain.expect_agreement(rows_inputs(64, 5));
  Recorded recorded(rows_graph(false), {.limit = 100});
  recorded.device->set_capacity(plain.device->live_bytes() + plain.program->bytes());
  recorded.expect_agreement(rows_inputs(64, 5));
  EXPECT_EQ(recorded.program->captured_graphs(), 0U);
}

TEST(CapturedGraphs, AreGivenUpWhereALaterRunNeedsTheirMemory) {
  Recorded plain(rows_graph(false), {.limit = 0});
  plain.expect_agreement(rows_inputs(64, 5));
  Recorded recorded(rows_graph(false), {.limit = 100});
  for (std::int64_t n : {64, 9}) recorded.expect_agreement(rows_inputs(n, 5));
  EXPECT_EQ(recorded.program->captured_graphs(), 2U);
  recorded.device->set_capacity(plain.device->live_bytes() + plain.program->bytes());
  for (std::int64_t n : {64, 9, 64}) recorded.expect_agreement(rows_inputs(n, 5));
  EXPECT_EQ(recorded.program->captured_graphs(), 0U);
}

TEST(CapturedGraphs, AnyCallThatFails_FailsTheRunAlone) {
  const EmulatedProgram built =
      build_emulated(generate(rows_graph(false), Target::Cuda).value()).value();
  const Inputs inputs = rows_inputs(7, 5);
  int failed = 0;
  for (int n = 0;; ++n) {
    ASSERT_LT(n, 200);
    Recorded fresh(built, {.sizes = {{"x.size(0)", {8}}}});
    fresh.device->fail_call(n);
    const int before = fresh.device->calls();
    auto got = run_compiled(*fresh.program, inputs);
    if (got && fresh.device->calls() - before <= n) break;
    // A recording that fails is done without.
    failed += got.has_error();
    if (!got) {
      EXPECT_EQ(got.error().code, Code::Environment);
      EXPECT_TRUE(got.error().message.ends_with("emulated device: as it was told to"))
          << got.error().message;
    }
    got = std::vector<Array>{};
    fresh.expect_agreement(inputs);
    fresh.program.reset();
    EXPECT_EQ(fresh.device->live_bytes(), 0U) << n;
  }
  EXPECT_GT(failed, 10);
}

}  // namespace
}  // namespace lockstep::worker::captured_graphs_test
