// The oracle itself, against numbers worked out by hand.
#include <cmath>
#include <limits>

#include "compiled_graph.h"
#include "graph_builder.h"
#include <gtest/gtest.h>

namespace lockstep::worker::interpreter_test {
namespace {

using shapes::Expr;
using Values = std::vector<double>;

/// The elements of the only output.
Values result_of(GraphBuilder& g, const Inputs& inputs) {
  const auto outputs = run_interpreted(g.take(), inputs);
  EXPECT_TRUE(outputs.has_value()) << (outputs ? "" : outputs.error().text());
  Values values;
  if (outputs)
    for (std::int64_t i = 0; i < outputs->at(0).elements(); ++i)
      values.push_back(outputs->at(0).at(i));
  return values;
}

/// One op on a = [..] and b = [..] of `dtype`.
Values binary(Op op, DType dtype, const Values& a, const Values& b) {
  GraphBuilder g("binary");
  const Expr n(static_cast<std::int64_t>(a.size()));
  const NodeId x = g.input("a", dtype, {n}), y = g.input("b", dtype, {n});
  g.output(g.op(op, {x, y}));
  const std::vector<std::int64_t> sizes{static_cast<std::int64_t>(a.size())};
  return result_of(g, {{"a", Array::of(dtype, sizes, a)}, {"b", Array::of(dtype, sizes, b)}});
}

TEST(Interpreter, IntegerDivision_RoundsDownAndZeroGivesZero) {
  EXPECT_EQ(binary(Op::Div, DType::I64, {7, -7, 7, -7, 5}, {2, 2, -2, -2, 0}),
            (Values{3, -4, -4, 3, 0}));
  EXPECT_EQ(binary(Op::Mod, DType::I64, {7, -7, 7, -7, 5}, {2, 2, -2, -2, 0}),
            (Values{1, 1, -1, -1, 5}));
}

TEST(Interpreter, MaximumOfNaN_IsNaN) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (Op op : {Op::Maximum, Op::Minimum}) {
    const Values got = binary(op, DType::F64, {nan, 1}, {1, nan});
    EXPECT_TRUE(std::isnan(got[0]) && std::isnan(got[1]));
  }
}

class OnTwoByThree : public testing::Test {
 protected:
  OnTwoByThree() : x_(g_.input("x", DType::F64, {Expr(2), Expr(3)})) {}
  Values get(NodeId out, Values values = {1, 2, 3, 4, 5, 6}) {
    g_.output(out);
    return result_of(g_, {{"x", Array::of(DType::F64, {2, 3}, values)}});
  }
  GraphBuilder g_{"views"};
  NodeId x_;
};

TEST_F(OnTwoByThree, Permute_Transposes) {
  EXPECT_EQ(get(g_.permute(x_, {1, 0})), (Values{1, 4, 2, 5, 3, 6}));
}
TEST_F(OnTwoByThree, SliceThenPad_MovesColumns) {
  EXPECT_EQ(get(g_.pad(g_.slice(x_, 1, 1, 2), 1, 1, 0)), (Values{0, 2, 3, 0, 5, 6}));
}
TEST_F(OnTwoByThree, CatOfColumns) {
  EXPECT_EQ(get(g_.cat({g_.slice(x_, 1, 2, 1), x_}, 1)), (Values{3, 1, 2, 3, 6, 4, 5, 6}));
}
TEST_F(OnTwoByThree, ExpandOfColumn_RepeatsAlongRows) {
  EXPECT_EQ(get(g_.expand(g_.slice(x_, 1, 0, 1), {Expr(2), Expr(2)})), (Values{1, 1, 4, 4}));
}
TEST_F(OnTwoByThree, SumOverRows) {
  EXPECT_EQ(get(g_.reduce(Op::Sum, x_, {0})), (Values{5, 7, 9}));
}
TEST_F(OnTwoByThree, AmaxOverColumns) {
  EXPECT_EQ(get(g_.reduce(Op::Amax, x_, {1})), (Values{3, 6}));
}
TEST_F(OnTwoByThree, ArgmaxOfEqualValues_IsTheFirst) {
  EXPECT_EQ(get(g_.reduce(Op::Argmax, x_, {1}), {7, 7, 1, 0, 2, 2}), (Values{0, 1}));
}
TEST_F(OnTwoByThree, MatmulWithItsTranspose) {
  EXPECT_EQ(get(g_.op(Op::Matmul, {x_, g_.permute(x_, {1, 0})})), (Values{14, 32, 32, 77}));
}
TEST_F(OnTwoByThree, ReductionOfNothing_HasItsNeutralValue) {
  const NodeId nothing = g_.slice(x_, 1, 0, 0);
  const NodeId sum = g_.reduce(Op::Sum, nothing, {1}), most = g_.reduce(Op::Amax, nothing, {1});
  EXPECT_EQ(get(g_.cat({sum, most, g_.cast(g_.reduce(Op::Argmax, nothing, {1}), DType::F64)}, 0)),
            (Values{0, 0, -INFINITY, -INFINITY, 0, 0}));
}

TEST(Interpreter, SegmentsAndOrder) {
  GraphBuilder g("segments");
  const NodeId x = g.input("x", DType::F64, {Expr(3), Expr(1)}),
               w = g.input("w", DType::F64, {Expr(3), Expr(1), Expr(1)});
  const NodeId counts = g.input("counts", DType::I64, {Expr(3)});
  const auto flat = [&](NodeId id) { return g.reshape(id, {Expr(3)}); };
  const NodeId ids = g.cast(g.segment_ids(counts, 3), DType::F64);
  const NodeId order = g.op(Op::Argsort, {flat(x)});
  g.output(g.cat(
      {flat(g.op(Op::SegmentMatmul, {x, w, counts})), flat(g.op(Op::SegmentOuter, {x, x, counts})),
       ids, g.cast(order, DType::F64), g.op(Op::IndexSelect, {flat(x), order}),
       g.op(Op::Cumsum, {flat(x)}), g.index_add(g.segment_ids(counts, 3), flat(x), 3)},
      0));
  const Inputs inputs{{"x", Array::of(DType::F64, {3, 1}, Values{5, 2, 3})},
                      {"w", Array::of(DType::F64, {3, 1, 1}, Values{10, 100, 1000})},
                      {"counts", integers({3}, {2, 0, 1})}};
  EXPECT_EQ(result_of(g, inputs),
            (Values{50, 20, 3000, 29, 0, 9, 0, 0, 2, 1, 2, 0, 2, 3, 5, 5, 7, 10, 7, 0, 3}));
}

TEST(Interpreter, CastToInt_CutsAndKeepsWhatDoesNotFitDefined) {
  GraphBuilder g("cast");
  const NodeId x = g.input("x", DType::F64, {Expr(4)});
  g.output(g.cast(x, DType::I64));
  EXPECT_EQ(result_of(g, {{"x", Array::of(DType::F64, {4}, Values{1.9, -1.9, NAN, 1e300})}}),
            (Values{1, -1, -9223372036854775808.0, -9223372036854775808.0}));
}

}  // namespace
}  // namespace lockstep::worker::interpreter_test
