// Random graphs, compiled against interpreted: what single ops do not show, their fusion.
#include "compiled_graph.h"
#include "graph_builder.h"
#include <gtest/gtest.h>

namespace lockstep::worker::codegen_random_test {
namespace {

using shapes::Expr;

/// Grows one graph of f64 values [a, b] by pieces that keep sizes and stay within about [-3, 3].
class RandomGraph {
 public:
  explicit RandomGraph(std::uint64_t seed)
      : random_(seed), g_("random"), a_(g_.symbol("x.size(0)")), b_(g_.symbol("x.size(1)")) {
    for (const char* name : {"x", "y", "z"})
      values_.push_back(g_.input(name, DType::F64, {a_, b_}));
    rows_ = g_.input("rows", DType::I64, {a_});
    // Only inputs are compared: a comparison of two computed values may differ in the last bit.
    condition_ = g_.op(Op::Lt, {values_[0], values_[1]});
  }

  Graph grow(int pieces) {
    for (int i = 0; i < pieces; ++i) values_.push_back(piece());
    for (NodeId value : {values_.back(), any(), any()}) g_.output(value);
    g_.output(g_.reduce(Op::Sum, any(), {static_cast<std::int64_t>(pick(2))}));
    return g_.take();
  }

 private:
  std::size_t pick(std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_);
  }
  NodeId any() { return values_[pick(values_.size())]; }
  NodeId bounded(NodeId x) { return g_.op(Op::Tanh, {x}); }
  NodeId like(NodeId row, std::int64_t dim) {
    const NodeId kept = dim == 0 ? g_.reshape(row, {Expr(1), b_}) : g_.reshape(row, {a_, Expr(1)});
    return g_.expand(kept, {a_, b_});
  }

  NodeId piece() {
    switch (pick(17)) {
      case 0:
        return g_.op(std::vector{Op::Neg, Op::Abs, Op::Relu, Op::Sigmoid, Op::Tanh}[pick(5)],
                     {any()});
      case 1:
        return g_.op(std::vector{Op::Add, Op::Sub, Op::Mul, Op::Maximum, Op::Minimum}[pick(5)],
                     {bounded(any()), any()});
      case 2:
        return g_.op(Op::Where, {condition_, any(), any()});
      case 3:
        return softmax(any());
      case 4:
        return reduced(any());
      case 5:
        return g_.permute(g_.op(Op::Neg, {g_.permute(any(), {1, 0})}), {1, 0});
      case 6:
        return shifted(any());
      case 7:
        return rotated(any());
      case 8:
        return g_.op(Op::IndexSelect, {any(), rows_});
      case 9:
        return bounded(g_.index_add(rows_, any(), a_));
      case 10:
        return product(any(), any());
      case 11:
        return g_.reshape(bounded(g_.op(Op::Cumsum, {g_.reshape(any(), {a_ * b_})})), {a_, b_});
      case 12:
        return g_.reshape(g_.op(Op::Abs, {g_.reshape(any(), {b_, a_})}), {a_, b_});
      case 13:
        return g_.flip(bounded(any()), {static_cast<std::int64_t>(pick(2))});
      case 14:
        return bounded(g_.op(Op::Cumsum, {any()}));
      case 15:
        return g_.gather(any(), 0, like(rows_, 1));
      default:
        return g_.op(
            Op::Div,
            {any(), g_.op(Op::Add, {g_.op(Op::Abs, {any()}), g_.full(DType::F64, {a_, b_}, 1.5)})});
    }
  }

  NodeId softmax(NodeId x) {
    const auto dim = static_cast<std::int64_t>(pick(2));
    const NodeId e =
        g_.op(Op::Exp, {g_.op(Op::Sub, {x, like(g_.reduce(Op::Amax, x, {dim}), dim)})});
    return g_.op(Op::Div, {e, like(g_.reduce(Op::Sum, e, {dim}), dim)});
  }
  NodeId reduced(NodeId x) {
    const auto dim = static_cast<std::int64_t>(pick(2));
    return g_.op(Op::Add,
                 {bounded(like(g_.reduce(Op::Sum, g_.op(Op::Mul, {x, x}), {dim}), dim)), any()});
  }
  NodeId shifted(NodeId x) {
    const auto dim = static_cast<std::int64_t>(pick(2));
    const Expr size = dim == 0 ? a_ : b_;
    return g_.slice(g_.pad(g_.op(Op::Sigmoid, {x}), dim, 1, 0), dim, pick(2), size);
  }
  NodeId rotated(NodeId x) {
    const auto dim = static_cast<std::int64_t>(pick(2));
    const Expr size = dim == 0 ? a_ : b_, half = floor_div(size, 2);
    return g_.cat({g_.slice(x, dim, half, size - half), g_.slice(x, dim, 0, half)}, dim);
  }
  NodeId product(NodeId x, NodeId y) {
    return bounded(g_.op(Op::Matmul, {bounded(g_.op(Op::Matmul, {x, g_.permute(y, {1, 0})})), x}));
  }

  std::mt19937_64 random_;
  GraphBuilder g_;
  Expr a_, b_;
  std::vector<NodeId> values_;
  NodeId rows_ = 0, condition_ = 0;
};

class CodegenRandom : public testing::TestWithParam<std::uint64_t> {};

TEST_P(CodegenRandom, Graph_AnySizes_AsInterpreted) {
  const std::uint64_t seed = GetParam();
  SCOPED_TRACE("seed " + std::to_string(seed));
  const Graph graph = RandomGraph(seed).grow(30);
  const auto executable = compile(graph);
  ASSERT_NE(executable, nullptr);
  std::mt19937_64 random(seed);
  for (const auto& [a, b] : {std::pair{0, 3},
                             {3, 0},
                             {1, 1},
                             {2, 1},
                             {1, 4},
                             {5, 7},
                             {33, 17},
                             {5, 7},
                             // Rows at each of which every kernel of a chain can be cut.
                             {9, 256},
                             {64, 32}}) {
    Inputs inputs;
    for (const char* name : {"x", "y", "z"})
      inputs[name] = random_array(random, DType::F64, {a, b});
    inputs["rows"] = random_indices(random, a, a);
    EXPECT_TRUE(agree(*executable, inputs, 1e-10)) << "sizes " << a << ", " << b << "\n"
                                                   << graph.text();
    if (testing::Test::HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, CodegenRandom, testing::Range<std::uint64_t>(1, 13));

}  // namespace
}  // namespace lockstep::worker::codegen_random_test
