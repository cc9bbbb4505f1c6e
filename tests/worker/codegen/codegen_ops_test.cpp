// Every op, compiled against interpreted, at sizes 0, 1, 2 and 5 of every dim: one graph with
// symbolic sizes per dtype, compiled once, and the same graph with static sizes.
#include <cmath>
#include <set>

#include "compiled_graph.h"
#include "graph_builder.h"
#include "ops/op_graphs.h"
#include <gtest/gtest.h>

#include <lockstep/worker/compile/codegen/codegen.h>
#include <lockstep/worker/tensor/graph/half.h>
#include <lockstep/worker/tensor/graph/op.h>

namespace lockstep::worker::codegen_ops_test {
namespace {

using shapes::Expr;

class CodegenOps : public testing::TestWithParam<DType> {
 protected:
  static double bound(DType dtype) { return dtype == DType::F32 ? 4e-6 : 1e-12; }

  void all_sizes(GraphMaker make, bool special) {
    const auto executable = compile(make(GetParam(), std::nullopt));
    ASSERT_NE(executable, nullptr);
    EXPECT_EQ(executable->program().nodes_interpreted, 0u);
    std::mt19937_64 random(20261);
    for (std::int64_t a : {0, 1, 2, 5})
      for (std::int64_t b : {0, 1, 2, 5})
        EXPECT_TRUE(
            agree(*executable, inputs_for(random, GetParam(), a, b, special), bound(GetParam())))
            << "sizes " << a << ", " << b;
  }
  void fixed_sizes(GraphMaker make) {
    std::mt19937_64 random(20262);
    for (const auto& [a, b] : {std::pair{1, 5}, {5, 1}, {0, 2}}) {
      const auto executable = compile(make(GetParam(), Extent{Expr(a), Expr(b)}));
      ASSERT_NE(executable, nullptr);
      EXPECT_TRUE(
          agree(*executable, inputs_for(random, GetParam(), a, b, false), bound(GetParam())))
          << a << ", " << b;
    }
  }
};

TEST_P(CodegenOps, Elementwise_AllSizes_AsInterpreted) { all_sizes(elementwise_graph, true); }
TEST_P(CodegenOps, Views_AllSizes_AsInterpreted) { all_sizes(view_graph, false); }
TEST_P(CodegenOps, Reductions_AllSizes_AsInterpreted) {
  if (GetParam() == DType::Bool || is_half(GetParam())) return;  // reductions take numbers
  all_sizes(reduction_graph, false);
}
TEST_P(CodegenOps, ReductionsOfNaN_AllSizes_AsInterpreted) {
  if (is_float(GetParam()) && !is_half(GetParam())) all_sizes(reduction_graph, true);
}
TEST_P(CodegenOps, Indexing_AllSizes_AsInterpreted) { all_sizes(index_graph, false); }
TEST_P(CodegenOps, Order_AllSizes_AsInterpreted) {
  if (GetParam() == DType::Bool || is_half(GetParam())) return;
  all_sizes(order_graph, false);
  if (is_float(GetParam())) all_sizes(order_graph, true);
}
TEST_P(CodegenOps, Products_AllSizes_AsInterpreted) {
  if (is_float(GetParam()) && !is_half(GetParam())) all_sizes(product_graph, false);
}
TEST_P(CodegenOps, StaticSizes_AsInterpreted) {
  if (GetParam() != DType::F64) return;  // the dtype and the kind of size do not meet anywhere
  for (GraphMaker make :
       {elementwise_graph, view_graph, reduction_graph, index_graph, order_graph, product_graph})
    fixed_sizes(make);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, CodegenOps,
                         testing::Values(DType::F64, DType::F32, DType::I64, DType::I32, DType::U8,
                                         DType::Bool, DType::F16, DType::BF16),
                         [](const auto& p) { return std::string(dtype_name(p.param)); });

// Collectives, host syncs and asserts are in executable_test.cpp, own ops in own_op_test.cpp, nodes
// with bodies in control_flow_test.cpp.
TEST(CodegenOpTable, EveryOp_IsInAGraphOfThisFile) {
  std::set<Op> seen;
  for (GraphMaker make :
       {elementwise_graph, view_graph, reduction_graph, index_graph, order_graph, product_graph})
    for (DType dtype : {DType::F32, DType::I64, DType::Bool}) {
      if ((make == reduction_graph || make == order_graph) && dtype == DType::Bool) continue;
      if (make == product_graph && dtype != DType::F32) continue;
      for (const Node& node : make(dtype, std::nullopt).nodes) seen.insert(node.op);
    }
  for (const OpRow& row : kOps) {
    if (row.kind == OpClass::Collective || row.kind == OpClass::HostSync ||
        row.kind == OpClass::Check || row.kind == OpClass::Control || row.kind == OpClass::Result ||
        row.kind == OpClass::Own)
      continue;
    EXPECT_TRUE(seen.contains(row.op)) << row.name;
  }
}

TEST(Codegen, ExpOfLargeNegativeNumbers_IsZeroAndOfNaNIsNaN) {
  for (DType dtype : {DType::F32, DType::F64}) {
    GraphBuilder g("exp");
    const NodeId x = g.input("x", dtype, {Expr(20)});
    g.output(g.op(Op::Exp, {x}));
    const auto executable = compile(g.take());
    std::vector<double> values(20, -1e30);
    values[1] = -INFINITY, values[2] = NAN, values[3] = -86, values[4] = -700, values[5] = 1;
    values[6] = -89, values[7] = -720, values[8] = INFINITY, values[9] = 88;
    EXPECT_TRUE(agree(*executable, {{"x", Array::of(dtype, {20}, values)}},
                      dtype == DType::F32 ? 4e-6 : 1e-12));
    const auto out = run_compiled(*executable, {{"x", Array::of(dtype, {20}, values)}}).value();
    EXPECT_EQ(out[0].at(0), 0);
    EXPECT_EQ(out[0].at(1), 0);
    EXPECT_TRUE(std::isnan(out[0].at(2)));
  }
}

}  // namespace
}  // namespace lockstep::worker::codegen_ops_test
