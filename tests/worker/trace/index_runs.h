// Programs on tensors called "a", "b", ... run in every way, for tests of what indices do.
#pragma once

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "compiled_graph.h"
#include "on_ranks.h"
#include "tracing.h"
#include <gtest/gtest.h>

#include <lockstep/worker/tensor/language/tensor_ops.h>
#include <lockstep/worker/tensor/trace/tracer.h>

namespace lockstep::worker::index_runs {

using test::DecisionBuilder;
using test::Dim;
using test::dynamic;
using test::setup;

using Numbers = std::vector<std::int64_t>;
using Body = std::function<Tensor(const std::vector<Tensor>&)>;

struct In {
  DType dtype;
  std::vector<Dim> dims;
};

using Bodies = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

/// Several programs on inputs "a", "b", ... as one.
inline Result<Graph> traced_together(const std::vector<In>& inputs, const Bodies& bodies) {
  DecisionBuilder decision;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    decision.tensor(std::string(1, static_cast<char>('a' + i)), inputs[i].dtype, inputs[i].dims);
  return trace(setup(decision.get()), [&](Trace& t) {
    std::vector<Tensor> tensors;
    for (std::size_t i = 0; i < inputs.size(); ++i) tensors.push_back(t.tensor_input(i));
    const std::vector<Tensor> results = bodies(tensors);
    for (std::size_t i = 0; i < results.size(); ++i) t.output("y" + std::to_string(i), results[i]);
  });
}
inline Result<Graph> traced(const std::vector<In>& inputs, const Body& body) {
  return traced_together(inputs,
                         [&](const std::vector<Tensor>& in) { return std::vector{body(in)}; });
}

inline Graph must(Result<Graph> graph) {
  EXPECT_TRUE(graph.has_value()) << graph.error().text();
  return graph ? std::move(*graph) : Graph{};
}

inline std::string refusal(const Result<Graph>& graph) {
  EXPECT_FALSE(graph.has_value());
  return graph ? std::string() : graph.error().message;
}

inline Inputs named(const std::vector<Array>& arrays) {
  Inputs inputs;
  for (std::size_t i = 0; i < arrays.size(); ++i)
    inputs[std::string(1, static_cast<char>('a' + i))] = arrays[i];
  return inputs;
}

/// In every way of running it gives `expected`.
inline void expect_everywhere(OnRanks& ranks, const std::vector<Array>& inputs,
                              const std::vector<Array>& expected) {
  const OnRanks::Run run = ranks.everywhere({named(inputs)});
  ASSERT_TRUE(run.ranks[0]->has_value()) << run.ranks[0]->error().text();
  EXPECT_TRUE(same(run.ranks[0]->value(), expected, 1e-12));
}
inline void expect_everywhere(OnRanks& ranks, const std::vector<Array>& inputs,
                              const Array& expected) {
  expect_everywhere(ranks, inputs, std::vector{expected});
}

/// Indices for every element of `sizes`, less than `limit`.
inline Array some_indices(std::mt19937_64& random, const Numbers& sizes, std::int64_t limit) {
  Array out = Array::zeros(DType::I64, sizes);
  for (std::int64_t i = 0; i < out.elements(); ++i)
    out.set(i, static_cast<double>(random() % static_cast<std::uint64_t>(limit)));
  return out;
}

inline Numbers place_of(std::int64_t i, const Numbers& sizes) {
  Numbers place(sizes.size());
  for (std::size_t d = sizes.size(); d-- > 0; i /= sizes[d]) place[d] = i % sizes[d];
  return place;
}
inline std::int64_t offset_of(const Numbers& place, const Numbers& sizes) {
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < sizes.size(); ++d) offset = offset * sizes[d] + place[d];
  return offset;
}

}  // namespace lockstep::worker::index_runs
