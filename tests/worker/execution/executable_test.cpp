// Runs of compiled programs: collectives and joint failure on several ranks, what is checked at run
// time, memory from run to run. Each test also runs the interpreter, which must do the same.
#include <mutex>

#include "compiled_graph.h"
#include "graph_builder.h"
#include "on_ranks.h"
#include <gtest/gtest.h>

#include <lockstep/worker/compile/codegen/codegen.h>
#include <lockstep/worker/compile/interpreter/interpreter.h>
#include <lockstep/worker/compile/toolchain/shared_build.h>
#include <lockstep/worker/tensor/graph/op.h>

namespace lockstep::worker::executable_test {
namespace {

using shapes::Expr;
using Way = OnRanks::Way;
/// Rows routed to ranks by counts that only the data tells, as a mixture of experts does.
Graph routed_graph(int size) {
  GraphBuilder g("routed");
  const Expr rows = g.symbol("x.size(0)");
  const NodeId x = g.input("x", DType::F64, {rows, Expr(3)}),
               counts = g.input("counts", DType::I64, {Expr(size)});
  const std::vector<Expr> ones(static_cast<std::size_t>(size), Expr(1));
  const NodeId received = g.all_to_all(counts, ones, ones);
  const auto in = g.read(Op::ToList, counts);
  const auto out = g.read(Op::ToList, received);
  g.line(41);
  for (const Expr& u : in) g.check(shapes::greater_equal(u, 0), "counts must not be negative");
  for (const Expr& u : out) g.check(shapes::greater_equal(u, 0));
  g.check(shapes::equal(shapes::sum(in), rows), "every row goes somewhere");
  const NodeId y = g.all_to_all(g.op(Op::Mul, {x, x}), in, out);
  const NodeId doubled = g.op(Op::Add, {y, y});
  g.output(g.all_to_all(doubled, out, in));
  g.output(g.collective(Op::AllReduce, g.reduce(Op::Sum, doubled, {0}), 0));
  return g.take();
}

std::vector<Inputs> routed_inputs(int size, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Inputs> inputs(static_cast<std::size_t>(size));
  for (int r = 0; r < size; ++r) {
    std::vector<std::int64_t> counts;
    std::int64_t rows = 0;
    for (int p = 0; p < size; ++p)
      rows += counts.emplace_back(static_cast<std::int64_t>(random() % 4) * (r != 0));
    inputs[static_cast<std::size_t>(r)]["counts"] = integers({size}, counts);
    inputs[static_cast<std::size_t>(r)]["x"] = random_array(random, DType::F64, {rows, 3});
  }
  return inputs;
}

TEST(Executable, RoutedRows_AnyGroupSize_ComeBackSquaredAndDoubled) {
  for (int size : {1, 2, 3, 4}) {
    OnRanks ranks(routed_graph(size), size);
    for (std::uint64_t seed : {1, 2, 3}) {
      const auto inputs = routed_inputs(size, seed);
      const auto run = ranks.everywhere(inputs);
      for (int r = 0; r < size; ++r) {
        const auto at = static_cast<std::size_t>(r);
        ASSERT_TRUE(run.ranks[at]->has_value()) << run.ranks[at]->error().text();
        const Array& x = inputs[at].at("x");
        const Array& back = run.ranks[at]->value()[0];
        ASSERT_EQ(back.sizes(), x.sizes());
        for (std::int64_t i = 0; i < x.elements(); ++i)
          EXPECT_DOUBLE_EQ(back.at(i), 2 * x.at(i) * x.at(i));
      }
    }
  }
}

TEST(Executable, AssertFailsOnOneRank_AllRanksFailAlikeBeforeTheNextCollective) {
  OnRanks ranks(routed_graph(3), 3);
  auto inputs = routed_inputs(3, 7);
  inputs[1]["x"] = Array::zeros(DType::F64, {100, 3});
  const auto run = ranks.everywhere(inputs);
  EXPECT_EQ(run.collectives, 1);
  EXPECT_EQ(run.rounds, 1);
  for (const auto& rank : run.ranks) {
    ASSERT_FALSE(rank->has_value());
    const Status& status = rank->error();
    EXPECT_EQ(status.code, Code::RuntimeAssert);
    EXPECT_NE(status.message.find("model.cpp:41"), std::string::npos) << status.message;
    EXPECT_NE(status.message.find("x.size(0)"), std::string::npos) << status.message;
    EXPECT_NE(status.message.find("100"), std::string::npos) << status.message;
    EXPECT_NE(status.message.find("every row goes somewhere"), std::string::npos) << status.message;
  }
}

TEST(Executable, NegativeCount_IsTheUsersAssertNotASizeThatMakesNoSense) {
  OnRanks ranks(routed_graph(2), 2);
  auto inputs = routed_inputs(2, 7);
  inputs[0]["counts"] = integers({2}, {-1, 1});
  const auto run = ranks.everywhere(inputs);
  for (const auto& rank : run.ranks) {
    ASSERT_FALSE(rank->has_value());
    EXPECT_EQ(rank->error().code, Code::RuntimeAssert);
    EXPECT_NE(rank->error().message.find("counts must not be negative"), std::string::npos)
        << rank->error().message;
  }
}

Graph splits_graph() {
  GraphBuilder g("splits");
  const Expr rows = g.symbol("x.size(0)"), n = g.symbol("n"), m = g.symbol("m");
  const NodeId x = g.input("x", DType::F64, {rows});
  g.line(9);
  g.output(g.all_to_all(x, {n, rows - n}, {m, m}));
  return g.take();
}

TEST(Executable, NegativeSplit_AllRanksFailBeforeTheCollective) {
  OnRanks ranks(splits_graph(), 2);
  std::vector<Inputs> inputs(2);
  for (int r = 0; r < 2; ++r) {
    auto& mine = inputs[static_cast<std::size_t>(r)];
    mine["x"] = Array::zeros(DType::F64, {4});
    mine["n"] = integers({}, {r == 0 ? 2 : 5});
    mine["m"] = integers({}, {2});
  }
  const auto run = ranks.everywhere(inputs);
  EXPECT_EQ(run.collectives, 1) << "the lists are compared, no row moves";
  for (const auto& rank : run.ranks) {
    ASSERT_FALSE(rank->has_value());
    EXPECT_NE(rank->error().message.find("all_to_all_single at model.cpp:9"), std::string::npos)
        << rank->error().message;
    EXPECT_NE(rank->error().message.find("[5, -1]"), std::string::npos) << rank->error().message;
  }
}

Graph every_collective_graph(int size) {
  GraphBuilder g("collectives");
  const NodeId x = g.input("x", DType::F64, {Expr(2 * size), Expr(3)}),
               s = g.input("s", DType::F64, {});
  const NodeId y = g.op(Op::Neg, {x});
  for (std::int64_t reduce : {0, 1, 2}) g.output(g.collective(Op::AllReduce, y, reduce));
  g.output(g.collective(Op::AllReduce, s, 0));
  g.output(g.collective(Op::AllGather, y, size));
  g.output(g.collective(Op::ReduceScatter, y, size));
  g.output(g.collective(Op::Broadcast, g.permute(y, {1, 0}), size - 1));
  const auto u = g.read(Op::Item, g.cast(s, DType::I64));
  g.output(g.full(DType::F64, {u[0]}, 2.5));
  return g.take();
}

TEST(Executable, EveryCollective_AnyGroupSize_AsInterpreted) {
  for (int size : {1, 2, 3}) {
    OnRanks ranks(every_collective_graph(size), size);
    std::mt19937_64 random(5);
    std::vector<Inputs> inputs(static_cast<std::size_t>(size));
    for (auto& mine : inputs) {
      mine["x"] = random_array(random, DType::F64, {2 * size, 3});
      mine["s"] = Array::of(DType::F64, {}, std::vector<double>{3});
    }
    const auto run = ranks.everywhere(inputs);
    EXPECT_EQ(run.collectives, 7);
    EXPECT_EQ(run.rounds, 0);
    for (const auto& rank : run.ranks) EXPECT_TRUE(rank->has_value());
  }
}

/// A broadcast, with memory of another value held or not, and after it a read and an assert.
Graph broadcast_graph(bool holding) {
  GraphBuilder g("broadcast");
  const NodeId x = g.input("x", DType::F64, {Expr(4)}), s = g.input("s", DType::I64, {});
  if (holding) g.output(g.op(Op::Neg, {x}));
  const NodeId y = g.collective(Op::Broadcast, x, 1);
  g.output(y);
  const auto u = g.read(Op::Item, s);
  g.check(shapes::equal(u[0], 3), "it is three");
  g.output(g.collective(Op::AllReduce, y, 0));
  return g.take();
}

std::vector<Inputs> broadcast_inputs(int size) {
  return {static_cast<std::size_t>(size),
          {{"x", Array::of(DType::F64, {4}, std::vector<double>(4, 2))}, {"s", integers({}, {3})}}};
}

void expect_the_same_error(const OnRanks::Run& run, const Status& error) {
  for (const auto& rank : run.ranks) {
    ASSERT_TRUE(rank->has_error());
    EXPECT_EQ(rank->error(), error);
  }
}

TEST(Executable, DeviceCallThatFails_IsToldToAllRanks) {
  for (int size : {2, 3})
    for (const Way way : {Way::Staged, Way::Direct, Way::DirectRecorded}) {
      OnRanks ranks(broadcast_graph(false), size);
      for (int bad = 0; bad < size; ++bad) {
        bool copy = false;
        int n = 0;  // the call that fails, up to the first after the last collective
        for (;; ++n) {
          SCOPED_TRACE(testing::Message() << "way " << static_cast<int>(way) << ", call " << n
                                          << " of rank " << bad << " of " << size);
          const auto run =
              ranks.on_devices(broadcast_inputs(size), way, [&](int rank, EmulatedDevice& device) {
                if (rank == bad) device.fail_call(n);
              });
          if (run.ranks[static_cast<std::size_t>((bad + 1) % size)]->has_value()) break;
          const auto& failed = *run.ranks[static_cast<std::size_t>(bad)];
          ASSERT_TRUE(failed.has_error());
          expect_the_same_error(run, failed.error());
          copy |= failed.error().message.starts_with("copy failed");
        }
        EXPECT_GE(n, 8);
        EXPECT_EQ(copy, way != Way::Staged);
      }
    }
}

TEST(Executable, DeviceWithoutMemoryForACollective_IsToldToAllRanks) {
  for (const Way way : {Way::Staged, Way::Direct}) {
    OnRanks ranks(broadcast_graph(true), 2);
    const auto run = ranks.on_devices(
        broadcast_inputs(2), way,
        [](int rank, EmulatedDevice& device) { device.set_capacity(rank == 0 ? 1024 : 1 << 20); });
    ASSERT_TRUE(run.ranks[0]->has_error());
    const Status& error = run.ranks[0]->error();
    EXPECT_NE(error.message.find("no memory for the 32 bytes of broadcast"), std::string::npos)
        << error.message;
    expect_the_same_error(run, error);
  }
}

class Checks : public testing::Test {
 protected:
  Status failure_of(GraphBuilder& g, const Inputs& inputs) {
    const auto executable = compile(g.take());
    EXPECT_TRUE(agree(*executable, inputs, 0));
    const auto got = run_compiled(*executable, inputs);
    EXPECT_FALSE(got.has_value());
    return got ? Status{} : got.error();
  }
};

TEST_F(Checks, IndexOutOfRange_NamesLineElementAndIndex) {
  for (std::int64_t bad : {std::int64_t{4}, std::int64_t{-1}, std::int64_t{1} << 62}) {
    GraphBuilder g("gather");
    const NodeId x = g.input("x", DType::F64, {Expr(4), Expr(2)}),
                 rows = g.input("rows", DType::I64, {Expr(3)});
    g.line(17);
    g.output(g.op(Op::Exp, {g.op(Op::IndexSelect, {x, rows})}));
    const Status status = failure_of(
        g, {{"x", Array::zeros(DType::F64, {4, 2})}, {"rows", integers({3}, {0, bad, 1})}});
    EXPECT_EQ(status.code, Code::RuntimeAssert);
    EXPECT_NE(status.message.find("model.cpp:17"), std::string::npos) << status.message;
    EXPECT_NE(status.message.find("index " + std::to_string(bad) + " in element 1"),
              std::string::npos)
        << status.message;
  }
}

TEST_F(Checks, IndexAddOutOfRange_WritesNothing) {
  GraphBuilder g("scatter");
  const NodeId v = g.input("v", DType::F64, {Expr(3)}),
               rows = g.input("rows", DType::I64, {Expr(3)});
  g.output(g.index_add(rows, v, 2));
  const Status status =
      failure_of(g, {{"v", Array::zeros(DType::F64, {3})}, {"rows", integers({3}, {0, 1, 2})}});
  EXPECT_EQ(status.code, Code::RuntimeAssert);
}

TEST_F(Checks, CountsThatDoNotAddUp_FailBeforeAnythingIsWritten) {
  for (const auto& counts : {std::vector<std::int64_t>{1, 1}, {5, -2}, {INT64_MAX, 2}}) {
    GraphBuilder g("segments");
    const NodeId c = g.input("c", DType::I64, {Expr(2)}),
                 x = g.input("x", DType::F64, {Expr(3), Expr(1)});
    g.output(g.segment_ids(c, 3));
    g.output(g.op(Op::SegmentOuter, {x, x, c}));
    const Status status =
        failure_of(g, {{"c", integers({2}, counts)}, {"x", Array::zeros(DType::F64, {3, 1})}});
    EXPECT_EQ(status.code, Code::RuntimeAssert);
  }
}

TEST_F(Checks, InputsThatDoNotFit_AreBadInputNamingThem) {
  GraphBuilder g("inputs");
  const Expr n = g.symbol("x.size(0)");
  const NodeId x = g.input("x", DType::F64, {n}), y = g.input("y", DType::F64, {n});
  g.output(g.op(Op::Add, {x, y}));
  const Graph graph = g.take();
  const auto executable = compile(graph);
  const Array three = Array::zeros(DType::F64, {3});
  const std::vector<Inputs> wrong{{{"x", three}},
                                  {{"x", three}, {"y", Array::zeros(DType::F64, {4})}},
                                  {{"x", three}, {"y", Array::zeros(DType::F32, {3})}},
                                  {{"x", three}, {"y", Array::zeros(DType::F64, {3, 1})}}};
  for (const Inputs& inputs : wrong) {
    const auto got = run_compiled(*executable, inputs);
    ASSERT_FALSE(got.has_value());
    EXPECT_EQ(got.error().code, Code::BadInput);
    EXPECT_EQ(got.error().source, "y");
    EXPECT_TRUE(agree(*executable, inputs, 0));
  }
}

TEST(Executable, InputOfOtherSizesOnOneRank_IsAJointFailureThatTheAssertExplains) {
  for (const bool with_assert : {true, false}) {
    GraphBuilder g("misfit");
    const Expr n = g.symbol("x.size(0)"), m = g.symbol("y.size(0)");
    const NodeId x = g.input("x", DType::F64, {n}), y = g.input("y", DType::F64, {n});
    const NodeId rows = g.input("rows", DType::I64, {Expr(2)});
    const NodeId both = g.op(Op::Add, {x, y});
    g.line(23);
    if (with_assert) g.check(shapes::equal(n, m));
    const NodeId some = g.op(Op::IndexSelect, {both, rows});
    g.output(g.collective(Op::AllReduce, some, 0));
    OnRanks ranks(g.take(), 2);
    const Inputs good{{"x", Array::zeros(DType::F64, {3})},
                      {"y", Array::zeros(DType::F64, {3})},
                      {"rows", integers({2}, {0, 2})}};
    Inputs bad = good;
    bad["y"] = Array::zeros(DType::F64, {2});
    const auto run = ranks.everywhere({good, bad});
    EXPECT_EQ(run.collectives, 1);  // in which the rank that failed takes part
    EXPECT_EQ(run.rounds, 1);
    for (const auto& rank : run.ranks) {
      ASSERT_FALSE(rank->has_value());
      EXPECT_EQ(rank->error().code, with_assert ? Code::RuntimeAssert : Code::BadInput)
          << rank->error().text();
    }
  }
}

TEST(Executable, ViewThatAnAssertKeepsInBounds_IsNotReadBeforeTheAssert) {
  GraphBuilder g("bounds");
  const Expr n = g.symbol("x.size(0)"), start = g.symbol("start");
  const NodeId x = g.input("x", DType::F64, {n, Expr(4)});
  g.output(g.op(Op::Neg, {x}));  // a kernel over the sizes of the slice below, before the assert
  g.check(shapes::equal(start, 0));
  g.output(g.slice(x, 0, start, n));
  const auto executable = compile(g.take());
  const Inputs inputs{{"x", Array::zeros(DType::F64, {2, 4})},
                      {"start", integers({}, {std::int64_t{1} << 40})}};
  EXPECT_TRUE(agree(*executable, inputs, 0));
}

TEST(Executable, OutputThatIsAnInput_SharesItsStorageAndIsNeverWritten) {
  GraphBuilder g("alias");
  const NodeId x = g.input("x", DType::F64, {Expr(2), Expr(3)});
  g.output(x);
  g.output(g.reshape(x, {Expr(6)}));
  const NodeId y = g.op(Op::Neg, {x});
  g.output(y);
  g.output(g.reshape(y, {Expr(3), Expr(2)}));
  const auto executable = compile(g.take());
  const Array in = Array::of(DType::F64, {2, 3}, std::vector<double>{1, 2, 3, 4, 5, 6});
  const auto out = run_compiled(*executable, {{"x", in}}).value();
  EXPECT_EQ(out[0].data(), in.data());
  EXPECT_EQ(out[1].data(), in.data());
  EXPECT_EQ(out[2].data(), out[3].data());
  EXPECT_EQ(out[3].sizes(), (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(in.at(5), 6);
  EXPECT_EQ(out[2].at(5), -6);
}

TEST(Executable, RunsOfManySizes_ReuseTheirMemory) {
  GraphBuilder g("memory");
  const Expr n = g.symbol("x.size(0)");
  const NodeId x = g.input("x", DType::F64, {n, Expr(16)}),
               w = g.input("w", DType::F64, {Expr(16), Expr(16)});
  NodeId y = x;
  for (int layer = 0; layer < 12; ++layer) y = g.op(Op::Tanh, {g.op(Op::Matmul, {y, w})});
  g.output(y);
  const auto executable = compile(g.take());
  std::mt19937_64 random(3);
  const Array weights = random_array(random, DType::F64, {16, 16});
  std::size_t settled = 0;
  for (int round = 0; round < 4; ++round)
    for (std::int64_t rows : {100, 90, 0, 1, 97, 100}) {
      EXPECT_TRUE(agree(*executable,
                        {{"x", random_array(random, DType::F64, {rows, 16})}, {"w", weights}},
                        1e-10));
      if (round == 0) settled = executable->bytes();
    }
  EXPECT_EQ(executable->bytes(), settled);
  // 23 intermediate values, but never more than two or three at once.
  EXPECT_LE(settled, 4u * 100 * 16 * sizeof(double));
  EXPECT_EQ(executable->time().runs, 24u);
}

}  // namespace
}  // namespace lockstep::worker::executable_test
