// Indexing by tensors of indices, beside plain loops: interpreted, compiled for the host, and on an
// emulated device.
#include <functional>
#include <random>

#include "compiled_graph.h"
#include "on_ranks.h"
#include "tracing.h"
#include <gtest/gtest.h>

#include <lockstep/worker/trace/tensor_ops.h>
#include <lockstep/worker/trace/tracer.h>

namespace lockstep::worker::index_test {
namespace {

using test::DecisionBuilder;
using test::dynamic;

using Numbers = std::vector<std::int64_t>;
using Body = std::function<Tensor(const std::vector<Tensor>&)>;

struct In {
  DType dtype;
  std::vector<test::Dim> dims;
};

/// Of inputs "a", "b", ...
Result<Graph> traced(const std::vector<In>& inputs, const Body& body) {
  DecisionBuilder decision;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    decision.tensor(std::string(1, static_cast<char>('a' + i)), inputs[i].dtype, inputs[i].dims);
  return trace(test::setup(decision.get()), [&](Trace& t) {
    std::vector<Tensor> tensors;
    for (std::size_t i = 0; i < inputs.size(); ++i) tensors.push_back(t.tensor_input(i));
    t.output("y", body(tensors));
  });
}

Graph must(Result<Graph> graph) {
  EXPECT_TRUE(graph.has_value()) << graph.error().text();
  return graph ? std::move(*graph) : Graph{};
}

std::string refusal(const Result<Graph>& graph) {
  EXPECT_FALSE(graph.has_value());
  return graph ? std::string() : graph.error().message;
}

Inputs named(const std::vector<Array>& arrays) {
  Inputs inputs;
  for (std::size_t i = 0; i < arrays.size(); ++i)
    inputs[std::string(1, static_cast<char>('a' + i))] = arrays[i];
  return inputs;
}

/// In every way of running it gives `expected`.
void expect_everywhere(OnRanks& ranks, const std::vector<Array>& inputs, const Array& expected) {
  const OnRanks::Run run = ranks.everywhere({named(inputs)});
  ASSERT_TRUE(run.ranks[0]->has_value()) << run.ranks[0]->error().text();
  EXPECT_TRUE(same(run.ranks[0]->value(), {expected}, 1e-12));
}

/// Indices for every element of `sizes`, less than `limit`.
Array some_indices(std::mt19937_64& random, const Numbers& sizes, std::int64_t limit) {
  Array out = Array::zeros(DType::I64, sizes);
  for (std::int64_t i = 0; i < out.elements(); ++i)
    out.set(i, static_cast<double>(random() % static_cast<std::uint64_t>(limit)));
  return out;
}

Numbers place_of(std::int64_t i, const Numbers& sizes) {
  Numbers place(sizes.size());
  for (std::size_t d = sizes.size(); d-- > 0; i /= sizes[d]) place[d] = i % sizes[d];
  return place;
}
std::int64_t offset_of(const Numbers& place, const Numbers& sizes) {
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < sizes.size(); ++d) offset = offset * sizes[d] + place[d];
  return offset;
}

Array gathered(const Array& x, std::size_t dim, const Array& index) {
  Array out(x.dtype(), index.sizes());
  for (std::int64_t i = 0; i < out.elements(); ++i) {
    Numbers place = place_of(i, index.sizes());
    place[dim] = static_cast<std::int64_t>(index.at(i));
    out.set(i, x.at(offset_of(place, x.sizes())));
  }
  return out;
}

TEST(Index, Gather_TakesTheElementAtTheIndexAlongTheDim) {
  std::mt19937_64 random(1);
  for (const std::int64_t dim : {0, 1, 2, -1}) {
    std::vector<test::Dim> x_dims(3, dynamic(4, 0)), index_dims(3, dynamic(3, 0));
    const Graph graph =
        must(traced({{DType::F64, x_dims}, {DType::I64, index_dims}},
                    [&](const std::vector<Tensor>& in) { return gather(in[0], dim, in[1]); }));
    OnRanks ranks(graph, 1);
    const auto d = static_cast<std::size_t>(dim < 0 ? 2 : dim);
    for (const Numbers& sizes : {Numbers{4, 3, 5}, {1, 1, 1}, {2, 2, 2}, {5, 1, 2}})
      for (const std::int64_t less : {0, 1, 5}) {
        Numbers index_sizes;
        for (const std::int64_t size : sizes)
          index_sizes.push_back(std::max<std::int64_t>(0, size - less));
        index_sizes[d] = 3;
        const Array x = random_array(random, DType::F64, sizes);
        const Array index = some_indices(random, index_sizes, sizes[d]);
        expect_everywhere(ranks, {x, index}, gathered(x, d, index));
      }
  }
}

TEST(Index, Gather_OfANumberAndOfBools) {
  const Graph number =
      must(traced({{DType::F32, {}}, {DType::I64, {}}},
                  [](const std::vector<Tensor>& in) { return gather(in[0], 0, in[1]); }));
  OnRanks ranks(number, 1);
  const std::vector<double> value{2.5}, zero{0};
  expect_everywhere(ranks, {Array::of(DType::F32, {}, value), Array::of(DType::I64, {}, zero)},
                    Array::of(DType::F32, {}, value));
  const Graph bools =
      must(traced({{DType::Bool, {3}}, {DType::I64, {dynamic(2, 0)}}},
                  [](const std::vector<Tensor>& in) { return gather(in[0], 0, in[1]); }));
  OnRanks more(bools, 1);
  const std::vector<double> flags{1, 0, 0}, picked{0, 1, 0, 0};
  expect_everywhere(more, {Array::of(DType::Bool, {3}, flags), integers({4}, {2, 0, 1, 1})},
                    Array::of(DType::Bool, {4}, picked));
}

TEST(Index, Gather_OutOfRangeOnOneRank_IsTheSameErrorOnAll) {
  const Graph graph = must(traced(
      {{DType::F64, {dynamic(4, 0), dynamic(3, 0)}}, {DType::I64, {dynamic(4, 0), dynamic(2, 0)}}},
      [](const std::vector<Tensor>& in) { return gather(in[0], 1, in[1]); }));
  OnRanks ranks(graph, 3);
  std::mt19937_64 random(2);
  const Array x = random_array(random, DType::F64, {2, 3});
  for (const std::int64_t wrong : {3, -1}) {
    std::vector<Inputs> inputs(3, named({x, integers({2, 2}, {0, 1, 2, 0})}));
    inputs[1] = named({x, integers({2, 2}, {0, 1, wrong, 0})});
    const OnRanks::Run run = ranks.everywhere(inputs);
    for (const auto& outcome : run.ranks) {
      ASSERT_FALSE(outcome->has_value());
      EXPECT_NE(outcome->error().message.find(
                    "was given index " + std::to_string(wrong) +
                    " in element 2 of its index, but indices must be at least 0 and less than 3"),
                std::string::npos)
          << outcome->error().message;
      EXPECT_NE(outcome->error().message.find("gather at index_test.cpp:"), std::string::npos);
    }
  }
}

TEST(Index, Gather_WhatDoesNotFit_IsRefusedInOneSentence) {
  const auto words = [](const In& x, const In& index, std::int64_t dim) {
    return refusal(traced(
        {x, index}, [&](const std::vector<Tensor>& in) { return gather(in[0], dim, in[1]); }));
  };
  EXPECT_NE(words({DType::F64, {4}}, {DType::I32, {2}}, 0)
                .find("gather: takes i64 indices, not i32[2]; cast first"),
            std::string::npos);
  EXPECT_NE(words({DType::F64, {4, 3}}, {DType::I64, {2}}, 0)
                .find("gather: takes an index of as many dims as x, not i64[2] for f64[4, 3]"),
            std::string::npos);
  EXPECT_NE(words({DType::F64, {4, 3}}, {DType::I64, {4, 5}}, 0)
                .find("gather: dim 1 of f64[4, 3] is smaller than the 5 of the index"),
            std::string::npos);
  EXPECT_NE(words({DType::F64, {4, 3}}, {DType::I64, {4, 3}}, 2)
                .find("gather: a tensor with 2 dims has no dim 2"),
            std::string::npos);
}

TEST(Index, Take_CountsFromTheEndWhereNegative) {
  const Graph graph =
      must(traced({{DType::F64, {dynamic(4, 0), dynamic(3, 0)}}, {DType::I64, {dynamic(4, 0), 2}}},
                  [](const std::vector<Tensor>& in) { return take(in[0], in[1]); }));
  OnRanks ranks(graph, 1);
  std::mt19937_64 random(3);
  const Array x = random_array(random, DType::F64, {2, 3});
  const Numbers at{0, -1, 5, -6, 3, 3};
  Array expected(DType::F64, {3, 2});
  for (std::size_t i = 0; i < at.size(); ++i)
    expected.set(static_cast<std::int64_t>(i), x.at(at[i] < 0 ? at[i] + 6 : at[i]));
  expect_everywhere(ranks, {x, integers({3, 2}, at)}, expected);
  expect_everywhere(ranks, {x, integers({0, 2}, {})}, Array(DType::F64, {0, 2}));
  for (const std::int64_t wrong : {6, -7}) {
    const OnRanks::Run run = ranks.everywhere({named({x, integers({1, 2}, {0, wrong})})});
    ASSERT_FALSE(run.ranks[0]->has_value());
    const std::string message = run.ranks[0]->error().message;
    EXPECT_NE(message.find("take at index_test.cpp:"), std::string::npos) << message;
    EXPECT_NE(message.find("was given index " + std::to_string(wrong) +
                           " in element 1 of its index, but indices must be at least -6 and less "
                           "than 6"),
              std::string::npos)
        << message;
  }
}

}  // namespace
}  // namespace lockstep::worker::index_test
