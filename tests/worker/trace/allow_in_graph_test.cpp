// Functions as one node of the graph, with sizes that are inferred or given: interpreted, compiled
// for the host, and on an emulated device.
#include "function_runs.h"

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/autodiff/control_flow.h>
#include <lockstep/worker/tensor/language/tensor_ops.h>

namespace lockstep::worker::allow_in_graph_test {
namespace {

using namespace test;
using shapes::Expr;

const In kVector{DType::F64, {dynamic(3, 0)}};

TEST(AllowInGraph, IsOneNode_ThatGivesTheSame) {
  const auto gate = [](const Tensors& x) { return Tensors{tanh(x[0]) * sigmoid(x[1]), x[0]}; };
  const auto body = [&](bool node) {
    return [&, node](const Tensors& in) {
      const TracedFunction f = node ? allow_in_graph(gate) : TracedFunction(gate);
      const Tensors y = f({in[0], f({in[1], in[0]})[0]});
      return Tensors{y[0], y[1], grad(sum(y[0] * y[0]), {in[0]})[0]};
    };
  };
  const Graph graph = must(traced({kVector, kVector}, body(true)));
  EXPECT_EQ(std::ranges::count(graph.nodes, Op::Call, &Node::op), 4) << graph.text();
  EXPECT_EQ(std::ranges::count(graph.nodes, Op::Tanh, &Node::op), 0) << graph.text();
  OnRanks ranks(graph, 1), plain(must(traced({kVector, kVector}, body(false))), 1);
  for (const std::int64_t n : {0, 1, 2, 5}) {
    const std::vector<Array> arrays{waves({n}, 0.3), waves({n}, 2)};
    expect_everywhere(ranks, arrays, plain.interpreted({named(arrays)}).ranks[0]->value());
  }
}

/// The odd-numbered and the even-numbered elements of x, put back together: x again, whose size the
/// prover sees as a sum of halves.
TEST(AllowInGraph, TakesASizeThatIsGiven_AndTestsIt) {
  const auto halves = [](const Tensors& in) {
    const SymInt half = in[0].size(0) / 2;
    return Tensors{cat({slice(in[0], 0, 0, half), slice(in[0], 0, half, half)}, 0)};
  };
  OnRanks ranks(must(traced({{DType::F64, {dynamic(4, 0)}}},
                            [&](const Tensors& in) {
                              const auto f = allow_in_graph(
                                  halves, [](auto inputs) { return std::vector{inputs[0]}; });
                              const Tensor y = f({in[0]})[0];
                              EXPECT_EQ(y.size(0).text(), in[0].size(0).text());
                              return Tensors{y, grad(sum(y * y), {in[0]})[0]};
                            })),
                1);
  for (const std::int64_t n : {0, 2, 6}) {
    const Array x = waves({n}, 0.7);
    expect_everywhere(ranks, {x}, {x, each(x, [](double a) { return 2 * a; })});
  }
  const auto odd = ranks.everywhere({named({waves({5}, 0)})});
  ASSERT_FALSE(odd.ranks[0]->has_value());
  EXPECT_EQ(odd.ranks[0]->error().code, Code::RuntimeAssert);
  expect_says(
      odd.ranks[0]->error().text(),
      {"allow_in_graph_test.cpp:", "allow_in_graph: result 0 is f64[", "the shape rule says f64["});
}

TEST(AllowInGraph, GivenSizesThatCannotBe_AreRefused) {
  const auto says = [](const ShapeRule& rule) {
    return message({kVector}, [&](const Tensors& in) {
      return allow_in_graph([](const Tensors& x) { return Tensors{x[0] * 2.0}; }, rule)(in);
    });
  };
  expect_says(
      says([](auto in) {
        return std::vector{TensorMeta{DType::F64, {in[0].sizes[0] + Expr(1)}}};
      }),
      {"allow_in_graph_test.cpp:", "result 0 is f64[s0], and the shape rule says f64[s0 + 1]"});
  expect_says(says([](auto in) {
                return std::vector{TensorMeta{DType::F32, in[0].sizes}};
              }),
              {"the shape rule says f32[s0]"});
  expect_says(says([](auto) {
                return std::vector{TensorMeta{DType::F64, {}}};
              }),
              {"the shape rule says f64[]"});
  expect_says(says([](auto) { return std::vector<TensorMeta>{}; }),
              {"the function gives 1 results, and its shape rule 0"});
  expect_says(
      says([](auto) -> std::vector<TensorMeta> {
        throw std::invalid_argument("it takes one matrix");
      }),
      {"allow_in_graph_test.cpp:", "its shape rule does not take (f64[s0]): it takes one matrix"});
}

}  // namespace
}  // namespace lockstep::worker::allow_in_graph_test
