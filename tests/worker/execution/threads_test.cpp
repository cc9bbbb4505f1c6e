// Steps of a program that threads share: the bits of every op, and the work of a step handed out.
#include <atomic>
#include <cstring>
#include <functional>
#include <numeric>
#include <stdexcept>

#include "compiled_graph.h"
#include "graph_builder.h"
#include "ops/joined_cases.h"
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/worker/compile/codegen/codegen.h>
#include <lockstep/worker/compile/run/matmul.h>
#include <lockstep/worker/compile/run/threads.h>

namespace lockstep::worker::threads_test {
namespace {

using I = std::int64_t;

bool same_bits(const Array& a, const Array& b) {
  return a.sizes() == b.sizes() && a.bytes() == b.bytes() &&
         (a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}

TEST(Threads, OfEveryNumber_GiveEveryCaseTheSameBits) {
  const test::JoinedCases cases(1);
  const Result<Graph> graph = cases.traced();
  ASSERT_TRUE(graph.has_value()) << graph.error().text();
  const std::unique_ptr<Executable> executable = compile(*graph);
  ASSERT_NE(executable, nullptr);
  int split = 0;
  for (const Step& step : executable->program().steps) split += step.sharing ? 1 : 0;
  EXPECT_GT(split, 200);
  Threads one(1), two(2, 1), three(3, 1), eight(8, 1);
  for (const auto& [n, m] : {std::pair<I, I>{1, 2}, {5, 7}, {33, 40}}) {
    SCOPED_TRACE("n " + std::to_string(n) + " m " + std::to_string(m));
    const Inputs inputs = cases.inputs(n, m, 5)[0];
    const auto expected = run_compiled(*executable, inputs, one);
    ASSERT_TRUE(expected.has_value()) << expected.error().text();
    for (Threads* threads : {&two, &three, &eight}) {
      const auto got = run_compiled(*executable, inputs, *threads);
      ASSERT_TRUE(got.has_value()) << got.error().text();
      for (std::size_t i = 0; i < expected->size(); ++i)
        EXPECT_TRUE(same_bits((*got)[i], (*expected)[i]))
            << graph->outputs[i].name << " with " << threads->count() << " threads";
    }
  }
}

TEST(Threads, DoEachPieceOnce) {
  Threads threads(3);
  for (int pieces = 0; pieces < 200; ++pieces) {
    std::vector<std::atomic<int>> done(static_cast<std::size_t>(pieces));
    std::atomic<bool> strange = false;
    threads.run(pieces, [&](int piece, int thread) {
      ++done[static_cast<std::size_t>(piece)];
      if (thread < 0 || thread >= 3) strange = true;
    });
    for (const auto& times : done) EXPECT_EQ(times, 1);
    EXPECT_FALSE(strange);
  }
}

TEST(Threads, RethrowTheExceptionOfTheLowestPiece_AndGoOn) {
  Threads threads(4);
  for (int k = 0; k < 50; ++k) {
    try {
      threads.run(16, [](int piece, int) {
        if (piece % 5 == 3) throw std::runtime_error(std::to_string(piece));
      });
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "3");
    }
  }
  std::atomic<int> sum = 0;
  threads.run(10, [&](int piece, int) { sum += piece; });
  EXPECT_EQ(sum, 45);
}

TEST(Threads, RoundAsTheCallerDoes) {
#ifdef __SSE2__
  Threads threads(4);
  threads.run(8, [](int, int) {});
  const unsigned before = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before | 0x8040);  // subnormal numbers are 0
  std::atomic<int> other = 0;
  for (int k = 0; k < 100; ++k)
    threads.run(8, [&](int, int) {
      volatile float smallest = 1e-38F;
      if (smallest * 0.1F != 0) ++other;
    });
  __builtin_ia32_ldmxcsr(before);
  EXPECT_EQ(other, 0);
  for (int k = 0; k < 100; ++k)
    threads.run(8, [&](int, int) {
      volatile float smallest = 1e-38F;
      if (smallest * 0.1F == 0) ++other;
    });
  EXPECT_EQ(other, 0);
#endif
}

TEST(Threads, OfAProcessThatForks_AreNotMissedByItsChild) {
  auto threads = std::make_unique<Threads>(3);
  threads->run(9, [](int, int) {});
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    int sum = 0;
    threads->run(9, [&](int piece, int) { sum += piece; });  // in this thread alone
    threads.reset();
    std::_Exit(sum == 36 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(Threads, TakeFewPiecesOfLittleWork) {
  EXPECT_EQ(Threads(1).pieces_of(1 << 30, 100), 1);
  EXPECT_EQ(Threads(8).pieces_of(kThreadGrain - 1, 100), 1);
  EXPECT_EQ(Threads(8).pieces_of(3 * kThreadGrain, 100), 3);
  EXPECT_EQ(Threads(8).pieces_of(1 << 30, 5), 5);
  EXPECT_EQ(Threads(8).pieces_of(1 << 30, 1000), 32);
  EXPECT_EQ(Threads(8).pieces_of(0, 0), 1);
}

TEST(Products, InBlocks_HaveTheBitsOfOneThread) {
  // Longer than a block by rows, by columns and in neither; too large for our own tiles.
  Threads one(1), eight(8, 1);
  for (const DType dtype : {DType::F32, DType::F64, DType::BF16})
    for (const auto& [batch, m, k, n] : {std::array<I, 4>{1, 700, 96, 80},
                                         {1, 70, 96, 900},
                                         {3, 300, 64, 260},
                                         {1, 300, 1100, 200},
                                         {1, 3, 5, 7}})
      for (const int lie : {0, 1, 2, 3}) {
        std::mt19937_64 random(7);
        const Array a = random_array(random, dtype, {batch, m, k}),
                    b = random_array(random, dtype, {batch, k, n});
        Array first(dtype, {batch, m, n}), second(dtype, {batch, m, n});
        const Operand left{a.data(), (lie & 1) != 0}, right{b.data(), (lie & 2) != 0};
        multiply(one, dtype, left, right, first.data(), batch, m, k, n);
        multiply(eight, dtype, left, right, second.data(), batch, m, k, n);
        EXPECT_TRUE(same_bits(first, second)) << m << " " << k << " " << n << " " << lie;
      }
}

/// Every kind of kernel that threads share, over sizes that make many pieces.
Graph shared_kernels() {
  GraphBuilder b("shared");
  const auto n = b.symbol("x.size(0)"), m = b.symbol("x.size(1)"), r = b.symbol("index.size(0)");
  const NodeId x = b.input("x", DType::F32, {n, m});
  const NodeId z = b.input("z", DType::F32, {n, shapes::Expr(3), m, shapes::Expr(5)});
  const NodeId index = b.input("index", DType::I64, {r});
  const NodeId rows = b.input("rows", DType::F32, {r, m});
  b.output(b.op(Op::Exp, {x}));                                                           // flat
  const NodeId mean = b.reduce(Op::Sum, x, {0});                                          // columns
  b.output(b.op(Op::Sub, {x, b.expand(b.reshape(mean, {shapes::Expr(1), m}), {n, m})}));  // rows
  b.output(b.op(Op::Tanh, {b.permute(z, {2, 0, 3, 1})}));            // four loops
  b.output(b.reduce(Op::Sum, z, {2}));                               // columns of many rows
  b.output(b.reduce(Op::Sum, z, {1, 3}));                            // short rows
  b.output(b.reduce(Op::Sum, b.cast(z, DType::F64), {0, 1, 2, 3}));  // one row
  b.output(b.reduce(Op::Prod, b.op(Op::Tanh, {x}), {0, 1}));
  b.output(b.reduce(Op::Sum, b.permute(z, {3, 1, 0, 2}), {2, 3}));
  b.output(b.reduce(Op::Amax, x, {1}));
  b.output(b.reduce(Op::Argmax, x, {1}));
  b.output(b.cat({x, b.op(Op::Neg, {x})}, 1));
  b.output(b.cat({x, rows}, 0));
  b.output(b.op(Op::Argsort, {x}));
  b.output(b.op(Op::Cumsum, {x}));
  b.output(b.index_add(index, rows, n));
  b.output(b.index_put(x, index, rows, Put::Max));
  return b.take();
}

TEST(Threads, ShareEveryKindOfKernel) {
  const std::unique_ptr<Executable> executable = compile(shared_kernels());
  ASSERT_NE(executable, nullptr);
  Threads one(1);
  for (const auto& [n, m] : {std::pair<I, I>{1, 70000}, {900, 1}, {310, 257}, {0, 3}, {3, 0}}) {
    SCOPED_TRACE("n " + std::to_string(n) + " m " + std::to_string(m));
    std::mt19937_64 random(11);
    const I r = n == 0 ? 0 : 2 * n + 5;
    const Inputs inputs{{"x", random_array(random, DType::F32, {n, m})},
                        {"z", random_array(random, DType::F32, {n, 3, m, 5})},
                        {"index", random_indices(random, r, n)},
                        {"rows", random_array(random, DType::F32, {r, m})}};
    const auto expected = run_interpreted(executable->program().graph, inputs);
    ASSERT_TRUE(expected.has_value()) << expected.error().text();
    const auto alone = run_compiled(*executable, inputs, one);
    ASSERT_TRUE(alone.has_value()) << alone.error().text();
    EXPECT_TRUE(same(*alone, *expected, 1e-5));
    for (const int count : {2, 3, 8})
      for (const I grain : {I{1}, I{1000}, kThreadGrain}) {
        Threads threads(count, grain);
        const auto got = run_compiled(*executable, inputs, threads);
        ASSERT_TRUE(got.has_value()) << got.error().text();
        for (std::size_t i = 0; i < expected->size(); ++i)
          EXPECT_TRUE(same_bits((*got)[i], (*alone)[i]))
              << "output " << i << " with " << count << " threads, pieces of " << grain;
      }
  }
}

NodeId over_rows(GraphBuilder& b, NodeId total, NodeId like) {
  const auto& sizes = b.meta(like).sizes;
  return b.expand(b.reshape(total, {sizes[0], shapes::Expr(1)}), sizes);
}

/// The chains of a graph's program, as "length over rows".
std::vector<std::string> chains_of(const Graph& graph) {
  const auto program = generate(graph);
  EXPECT_TRUE(program.has_value());
  std::vector<std::string> out;
  for (const Step& step : program->steps)
    if (step.chain)
      out.push_back(std::to_string(step.chain->length) + " over " +
                    program->exprs.expr(step.chain->rows).text());
  return out;
}

TEST(RowChains, Softmax_ItsLoss_AndANormOfIt_AreOne) {
  GraphBuilder b("softmax");
  const auto n = b.symbol("x.size(0)"), m = b.symbol("x.size(1)");
  const NodeId x = b.input("x", DType::F32, {n, m});
  const NodeId e = b.op(Op::Exp, {b.op(Op::Sub, {x, over_rows(b, b.reduce(Op::Amax, x, {1}), x)})});
  const NodeId p = b.op(Op::Div, {e, over_rows(b, b.reduce(Op::Sum, e, {1}), x)});
  b.output(p);
  const NodeId squares = b.reduce(Op::Sum, b.op(Op::Mul, {p, p}), {1});
  b.output(b.op(Op::Mul, {p, over_rows(b, b.op(Op::Rsqrt, {squares}), p)}));
  const Graph graph = b.take();
  EXPECT_EQ(chains_of(graph), std::vector<std::string>{"6 over s0"});

  const std::unique_ptr<Executable> executable = compile(graph);
  ASSERT_NE(executable, nullptr);
  Threads one(1), three(3), eight(8, 1);
  for (const auto& [rows, columns] : {std::pair<I, I>{700, 333}, {1, 90000}, {50000, 2}, {0, 9}}) {
    std::mt19937_64 random(3);
    const Inputs inputs{{"x", random_array(random, DType::F32, {rows, columns})}};
    const auto expected = run_interpreted(graph, inputs);
    const auto alone = run_compiled(*executable, inputs, one);
    ASSERT_TRUE(expected && alone);
    EXPECT_TRUE(same(*alone, *expected, 1e-5)) << rows << " " << columns;
    for (Threads* threads : {&three, &eight}) {
      const auto got = run_compiled(*executable, inputs, *threads);
      ASSERT_TRUE(got.has_value());
      for (std::size_t i = 0; i < got->size(); ++i)
        EXPECT_TRUE(same_bits((*got)[i], (*alone)[i])) << rows << " " << columns << " " << i;
    }
  }
}

TEST(RowChains, AreNotLong) {
  GraphBuilder b("long");
  NodeId x = b.input("x", DType::F32, {b.symbol("x.size(0)"), b.symbol("x.size(1)")});
  for (int k = 0; k < 20; ++k) x = b.op(Op::Cumsum, {x});
  b.output(x);
  EXPECT_EQ(chains_of(b.take()), (std::vector<std::string>{"8 over s0", "8 over s0", "4 over s0"}));
}

TEST(RowChains, EndWhereARowReadsAnotherRow) {
  using Make = std::function<NodeId(GraphBuilder&, NodeId x, NodeId index)>;
  // What reads `y`, which the kernel before has made and stored.
  const auto chains = [](const Make& make) {
    GraphBuilder b("pair");
    const auto n = b.symbol("x.size(0)"), m = b.symbol("x.size(1)");
    const NodeId x = b.input("x", DType::F32, {n, m}), index = b.input("index", DType::I64, {n});
    const NodeId y = b.op(Op::Cumsum, {x});
    b.output(y);
    b.output(make(b, y, index));
    return chains_of(b.take()).size();
  };
  const auto n = [](GraphBuilder& b, NodeId x) { return b.meta(x).sizes[0]; };
  const auto m = [](GraphBuilder& b, NodeId x) { return b.meta(x).sizes[1]; };
  const shapes::Expr one(1);
  using B = GraphBuilder&;
  EXPECT_EQ(chains([](B b, NodeId y, NodeId) { return b.op(Op::Tanh, {y}); }), 1U);
  EXPECT_EQ(chains([](B b, NodeId y, NodeId) { return b.flip(y, {1}); }), 1U);
  EXPECT_EQ(chains([](B b, NodeId y, NodeId) { return b.flip(y, {0}); }), 0U);
  EXPECT_EQ(chains([](B b, NodeId y, NodeId) { return b.op(Op::Argsort, {y}); }), 0U);
  EXPECT_EQ(chains([](B b, NodeId y, NodeId) { return b.op(Op::Cumsum, {y}); }), 1U);
  EXPECT_EQ(chains([](B b, NodeId y, NodeId) { return b.reduce(Op::Sum, y, {1}); }), 1U);
  EXPECT_EQ(chains([](B b, NodeId y, NodeId) { return b.reduce(Op::Argmax, y, {1}); }), 1U);
  EXPECT_EQ(chains([](B b, NodeId y, NodeId) { return b.reduce(Op::Sum, y, {0}); }), 0U);
  EXPECT_EQ(chains([](B b, NodeId y, NodeId) { return b.reduce(Op::Amax, y, {0}); }), 0U);
  EXPECT_EQ(chains([](B b, NodeId y, NodeId) { return b.permute(y, {1, 0}); }), 0U);
  EXPECT_EQ(chains([](B b, NodeId y, NodeId index) {
              return b.op(Op::IndexSelect, {y, index});
            }),
            0U);
  EXPECT_EQ(chains([&](B b, NodeId y, NodeId) { return b.pad(y, 1, 1, 2); }), 1U);
  EXPECT_EQ(chains([&](B b, NodeId y, NodeId) { return b.pad(y, 0, 1, 2); }), 0U);
  EXPECT_EQ(
      chains([&](B b, NodeId y, NodeId) { return b.slice(b.pad(y, 0, 1, 0), 0, 0, n(b, y)); }), 0U);
  EXPECT_EQ(chains([&](B b, NodeId y, NodeId) {
              return b.op(Op::Neg, {b.reshape(y, {n(b, y), m(b, y), one})});
            }),
            1U);
  EXPECT_EQ(chains([&](B b, NodeId y, NodeId) {
              return b.op(Op::Neg, {b.reshape(b.permute(y, {1, 0}), {n(b, y), m(b, y)})});
            }),
            0U);
  EXPECT_EQ(chains([&](B b, NodeId y, NodeId index) {
              return b.gather(y, 0, b.expand(b.reshape(index, {n(b, y), one}), b.meta(y).sizes));
            }),
            0U);
}

TEST(Threads, AreNotAskedForLittleWork) {
  GraphBuilder b("little");
  b.output(b.op(Op::Exp, {b.input("x", DType::F32, {shapes::Expr(100), shapes::Expr(300)})}));
  const auto program = generate(b.take());
  ASSERT_TRUE(program.has_value());
  for (const Step& step : program->steps) EXPECT_FALSE(step.sharing);
}

}  // namespace
}  // namespace lockstep::worker::threads_test
