// What the planner makes of a graph: how many kernels, what is stored, which steps; and that text
// depends on the graph alone.
#include <algorithm>

#include "graph_builder.h"
#include <gtest/gtest.h>

#include <lockstep/worker/compile/codegen/codegen.h>
#include <lockstep/worker/compile/codegen/prelude.h>

namespace lockstep::worker::codegen_plan_test {
namespace {

using shapes::Expr;

Program program_of(GraphBuilder& g) { return generate(g.take()).value(); }

std::ptrdiff_t count(const Program& program, Step::Kind kind) {
  return std::ranges::count(program.steps, kind, &Step::kind);
}
std::ptrdiff_t kernels(const Program& program) { return count(program, Step::Kind::Kernel); }

NodeId constant_like(GraphBuilder& g, NodeId x, double value) {
  return g.full(g.meta(x).dtype, g.meta(x).sizes, value);
}

NodeId spread(GraphBuilder& g, NodeId scalar, NodeId like) {
  const auto& sizes = g.meta(like).sizes;
  return g.expand(g.reshape(scalar, std::vector<Expr>(sizes.size(), Expr(1))), sizes);
}

/// One Adam update; gives the new parameter and moments as outputs.
void adam(GraphBuilder& g, NodeId p, NodeId m, NodeId v, NodeId grad, NodeId rate) {
  const auto times = [&](NodeId x, double c) { return g.op(Op::Mul, {x, constant_like(g, x, c)}); };
  const NodeId m1 = g.op(Op::Add, {times(m, 0.9), times(grad, 0.1)});
  const NodeId v1 = g.op(Op::Add, {times(v, 0.999), times(g.op(Op::Mul, {grad, grad}), 0.001)});
  const NodeId root = g.op(Op::Add, {g.op(Op::Sqrt, {v1}), constant_like(g, v1, 1e-8)});
  const NodeId step = g.op(Op::Div, {g.op(Op::Mul, {spread(g, rate, p), m1}), root});
  for (NodeId out : {g.op(Op::Sub, {p, step}), m1, v1}) g.output(out);
}

TEST(CodegenPlan, ElementwiseChain_IsOneKernel) {
  GraphBuilder g("chain");
  const Expr n = g.symbol("x.size(0)");
  const NodeId x = g.input("x", DType::F32, {n, Expr(8)}),
               bias = g.input("bias", DType::F32, {Expr(8)});
  const NodeId b = g.expand(g.reshape(bias, {Expr(1), Expr(8)}), {n, Expr(8)});
  g.output(g.op(Op::Tanh, {g.op(Op::Mul, {g.op(Op::Exp, {g.op(Op::Add, {x, b})}), x})}));
  EXPECT_EQ(kernels(program_of(g)), 1);
}

TEST(CodegenPlan, AdamUpdate_IsOneKernelAndEqualParametersShareIt) {
  GraphBuilder g("adam");
  std::vector<NodeId> in;
  for (const char* name : {"p", "m", "v", "g", "p2", "m2", "v2", "g2"})
    in.push_back(g.input(name, DType::F32, {Expr(64), Expr(64)}));
  const NodeId rate = g.input("rate", DType::F32, {});
  adam(g, in[0], in[1], in[2], in[3], rate);
  adam(g, in[4], in[5], in[6], in[7], rate);
  const Program program = program_of(g);
  EXPECT_EQ(kernels(program), 2);
  EXPECT_EQ(program.kernels.size(), 1u);
  EXPECT_EQ(count(program, Step::Kind::Settle), 0);
  // One flat loop, with the rate read outside it.
  EXPECT_NE(program.kernels[0].text.find("for (long i0 = 0; i0 < 4096; ++i0)"), std::string::npos);
}

TEST(CodegenPlan, GeluUsedTwice_StoresOnlyWhatIsExpensive) {
  GraphBuilder g("gelu");
  const NodeId x = g.input("x", DType::F32, {Expr(10), Expr(64)}),
               w = g.input("w", DType::F32, {Expr(64), Expr(4)});
  const NodeId t = g.op(Op::Tanh, {g.op(Op::Mul, {x, x})});
  const NodeId y = g.op(Op::Mul, {x, t});
  g.output(g.op(Op::Matmul, {y, w}));
  const NodeId sums = g.reduce(Op::Sum, g.op(Op::Sub, {t, x}), {1});
  g.output(sums);
  const Program program = program_of(g);
  // tanh and the product in one kernel, both stored; the reduction.
  EXPECT_EQ(kernels(program), 2);
  const std::string all = program.text();
  EXPECT_EQ(all.find("tanh_(v"), all.rfind("tanh_(v")) << all;
}

TEST(CodegenPlan, Softmax_IsFourKernels) {
  GraphBuilder g("softmax");
  const Expr n = g.symbol("x.size(0)");
  const NodeId x = g.input("x", DType::F32, {n, Expr(257)});
  const auto like = [&](NodeId row) {
    return g.expand(g.reshape(row, {n, Expr(1)}), {n, Expr(257)});
  };
  const NodeId e = g.op(Op::Exp, {g.op(Op::Sub, {x, like(g.reduce(Op::Amax, x, {1}))})});
  g.output(g.op(Op::Div, {e, like(g.reduce(Op::Sum, e, {1}))}));
  EXPECT_EQ(kernels(program_of(g)), 4);
}

TEST(CodegenPlan, TransposedOperands_AreReadByTheProductAsTheyLie) {
  GraphBuilder g("transposed");
  const NodeId x = g.input("x", DType::F32, {Expr(3), Expr(4)}),
               y = g.input("y", DType::F32, {Expr(5), Expr(3)});
  g.output(g.op(Op::Matmul, {g.permute(x, {1, 0}), g.permute(y, {1, 0})}));
  const Program program = program_of(g);
  EXPECT_EQ(kernels(program), 0);
  EXPECT_EQ(program.unit_count(), 0);
  const Step& step = program.steps.front();
  EXPECT_TRUE(step.transpose_a && step.transpose_b);
}

TEST(CodegenPlan, FixedSizes_AreSettledOnceAtTheEnd) {
  GraphBuilder g("settle");
  const NodeId x = g.input("x", DType::F32, {Expr(4)}),
               rows = g.input("rows", DType::I64, {Expr(4)});
  NodeId y = g.collective(Op::AllReduce, x, 0);  // nothing before it can fail
  y = g.collective(Op::AllReduce, g.op(Op::IndexSelect, {y, rows}), 0);  // an index can
  y = g.collective(Op::AllReduce, y, 0);
  g.output(g.op(Op::IndexSelect, {y, rows}));  // and at the end
  const Program program = program_of(g);
  EXPECT_EQ(count(program, Step::Kind::Settle), 1);
  EXPECT_EQ(program.steps.back().kind, Step::Kind::Settle);
  // The same indices against the same limit are checked once.
  EXPECT_EQ(count(program, Step::Kind::IndexCheck), 1);
}

TEST(CodegenPlan, DeadValues_AreNotComputed) {
  GraphBuilder g("dead");
  const NodeId x = g.input("x", DType::F32, {Expr(4)});
  g.op(Op::Exp, {x});
  g.reduce(Op::Sum, x, {0});
  g.output(g.op(Op::Neg, {x}));
  EXPECT_EQ(kernels(program_of(g)), 1);
}

TEST(CodegenPlan, Units_AreFewAndHoldEveryKernelOnce) {
  GraphBuilder g("units");
  const NodeId x = g.input("x", DType::F64, {Expr(2), Expr(3), Expr(4)});
  for (int i = 0; i < 150; ++i)
    g.output(g.reduce(Op::Sum, g.op(Op::Mul, {x, constant_like(g, x, i + 0.5)}), {i % 3}));
  const Program program = program_of(g);
  EXPECT_EQ(program.kernels.size(), 150u);
  EXPECT_EQ(program.unit_count(), 8);
  std::size_t least = SIZE_MAX, most = 0;
  for (const std::string& unit : program.units) {
    least = std::min(least, unit.size());
    most = std::max(most, unit.size());
  }
  EXPECT_LT(most, 2 * least);
  for (const Kernel& kernel : program.kernels)
    EXPECT_NE(program.units[kernel.unit].find(kernel.text), std::string::npos);
}

Program snapshot_program(std::int64_t hint) {
  GraphBuilder g("snapshot");
  const Expr n = g.symbol("x.size(0)");
  const NodeId x = g.input("x", DType::F32, {n, Expr(8)}), rate = g.input("rate", DType::F32, {});
  g.output(g.reduce(Op::Sum, g.op(Op::Mul, {x, spread(g, rate, x)}), {1}));
  Graph graph = g.take();
  graph.symbols[0].hint = hint;
  return generate(std::move(graph)).value();
}

TEST(CodegenPlan, KernelText_IsAPureFunctionOfTheGraph) {
  EXPECT_EQ(snapshot_program(2).text(), snapshot_program(1000).text());
  const std::string text = snapshot_program(2).kernels.at(0).text;
  EXPECT_EQ(text.substr(text.find('{')), R"({
  const float* __restrict b0 = (const float*)b[0];
  const float* __restrict b1 = (const float*)b[1];
  float* __restrict b2 = (float*)b[2];
  const long n0 = n[0];
  const long first = n[1], last = n[2];
  const float v1 = b1[0];
  for (long i0 = first; i0 < last; ++i0) {
    Terms terms;
    start_terms<false>(terms);
    add_row<false, float>(terms, 8, [&](long i) __attribute__((always_inline)) {
      const float v0 = b0[((i0 * 8) + i)];
      const float v2 = v0 * v1;
      return v2;
    }
    );
    b2[i0] = (float)total_of<false>(terms);
  }
}
)");
}

TEST(Prelude, AUnit_HasWhatItsKernelsUseAndWhatThatUses) {
  for (const Target target : {Target::Host, Target::Cuda}) {
    const std::string& all = kernel_prelude(target);
    // Every word is used, so nothing is left out.
    EXPECT_EQ(unit_text(target, all), all + all);

    const std::string kernels = "float f(float x) { return floor_div_(x, exp_(x)); }\n";
    const std::string unit = unit_text(target, kernels);
    EXPECT_TRUE(unit.ends_with(kernels));
    for (const char* used :
         {" floor_div_(", " fmod_(float", " fmod_(T", " floor_(double", " exp_(float"})
      EXPECT_NE(unit.find(used), std::string::npos) << used;
    for (const char* unused : {"philox_", "argsort", "merge_rows", "erf", "of_f16"})
      EXPECT_EQ(unit.find(unused), std::string::npos) << unused;
    EXPECT_LT(unit.find(" fmod_(T"), unit.find(" floor_div_("));
  }
}

}  // namespace
}  // namespace lockstep::worker::codegen_plan_test
