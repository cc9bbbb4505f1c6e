// Rows that a mask chooses as indices: losses of labels and look-ups in tables without the count.
// What was not chosen looks up element 0, so no index of it is out of range.
#include <algorithm>
#include <limits>
#include <random>

#include "function_runs.h"

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/language/index_ops.h>
#include <lockstep/worker/tensor/language/order_ops.h>
#include <lockstep/worker/tensor/layers/embeddings.h>
#include <lockstep/worker/tensor/layers/losses.h>

namespace lockstep::worker::mask_rewrite_index_test {
namespace {

using namespace test;  // NOLINT: everything here traces and runs functions

constexpr std::int64_t kClasses = 4;

/// m bool [s0], label i64 [s0], x f64 [s0, classes], table f64 [classes, 3].
Graph traced_labels(const Body& body, bool plain, const Dim& classes = kClasses) {
  const DecisionBuilder decision = DecisionBuilder()
                                       .tensor("aa", DType::Bool, {dynamic(5, 0)})
                                       .tensor("ab", DType::I64, {dynamic(5, 0)})
                                       .tensor("ac", DType::F64, {dynamic(5, 0), classes})
                                       .tensor("ad", DType::F64, {classes, 3});
  TraceSetup all = setup(decision.get());
  all.peers_may_differ = plain;
  return must(trace(all, [&](Trace& t) {
    Tensors in;
    for (std::size_t i = 0; i < 4; ++i) in.push_back(t.tensor_input(i));
    const Tensors out = body(in);
    for (std::size_t i = 0; i < out.size(); ++i) t.output(numbered(i), out[i]);
  }));
}

std::int64_t waits(const Graph& graph) {
  return std::ranges::count_if(
      graph.nodes, [](const Node& node) { return op_row(node.op).kind == OpClass::HostSync; });
}

/// Labels that no class has where the mask is false, and the ignored one here and there.
std::vector<Array> labelled(std::mt19937_64& random, std::int64_t n, std::int64_t classes) {
  Array m(DType::Bool, {n}), label(DType::I64, {n});
  const std::int64_t none[] = {-100, -1, classes, 1000, std::numeric_limits<std::int64_t>::min()};
  for (std::int64_t i = 0; i < n; ++i) {
    const bool chosen = random() % 2 == 0;
    m.set(i, chosen ? 1 : 0);
    std::int64_t& it = label.data_as<std::int64_t>()[i];
    it = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(classes));
    if (!chosen) it = none[random() % 5];
    if (chosen && random() % 5 == 0) it = -100;
  }
  return {m, label, random_array(random, DType::F64, {n, classes}),
          random_array(random, DType::F64, {classes, 3})};
}

/// Without a wait it gives what it gives with one, in every way of running.
void expect_same_without_wait(const Body& body, double bound, std::int64_t classes = kClasses,
                              bool ignored = true) {
  const Graph graph = traced_labels(body, false, classes),
              plain = traced_labels(body, true, classes);
  ASSERT_EQ(waits(graph), 0) << graph.text();
  ASSERT_GT(waits(plain), 0);
  OnRanks ranks(graph, 1);
  std::mt19937_64 random(91);
  for (const std::int64_t n : {0, 1, 2, 5, 13, 70})
    for (int k = 0; k < 3; ++k) {
      SCOPED_TRACE("n " + std::to_string(n));
      std::vector<Array> given = labelled(random, n, classes);
      if (!ignored)
        for (std::int64_t i = 0; i < n; ++i)
          if (given[0].at(i) == 1) given[1].set(i, std::max(given[1].at(i), 0.0));
      const auto expected = run_interpreted(plain, named(given));
      ASSERT_TRUE(expected) << expected.error().text();
      const auto got = run_interpreted(graph, named(given));
      ASSERT_TRUE(got) << got.error().text();
      EXPECT_TRUE(same(*got, *expected, bound)) << graph.text();
      (void)ranks.everywhere({named(given)});
      if (testing::Test::HasFailure()) return;
    }
}

TEST(MaskRewriteIndex, CrossEntropyOfChosenRows_WithItsGradient) {
  for (const std::int64_t classes : {kClasses, std::int64_t{1}})
    expect_same_without_wait(
        [](const Tensors& in) {
          const Tensor loss =
              cross_entropy(in[2][in[0]], in[1][in[0]], {.reduction = Reduction::Sum});
          const Tensor weighed = cross_entropy(in[2][in[0]], in[1][in[0]],
                                               {.weight = sum(in[3] * in[3], {1}),
                                                .reduction = Reduction::Sum,
                                                .label_smoothing = 0.1});
          return Tensors{loss, weighed, grad(loss + weighed, {in[2]})[0]};
        },
        1e-12, classes);
}

TEST(MaskRewriteIndex, MeanLossOfChosenRows) {
  expect_same_without_wait(
      [](const Tensors& in) {
        const Tensor loss = cross_entropy(in[2][in[0]], in[1][in[0]]);
        return Tensors{loss, grad(loss, {in[2]})[0]};
      },
      1e-12);
}

TEST(MaskRewriteIndex, EmbeddingOfChosenRows_AndTotalsByIndex) {
  expect_same_without_wait(
      [](const Tensors& in) {
        const Tensor ids = in[1][in[0]], rows = embedding(ids, in[3], 2);
        const Tensor loss = sum(rows * rows) + sum(tanh(in[3][ids]));
        return Tensors{sum(rows, {0}), loss, grad(loss, {in[3]})[0], bincount(ids, kClasses)};
      },
      1e-12, kClasses, false);
}

TEST(MaskRewriteIndex, AnIndexThatWasChosen_IsStillRefused) {
  const Graph graph = traced_labels(
      [](const Tensors& in) { return Tensors{sum(embedding(in[1][in[0]], in[3]))}; }, false);
  OnRanks ranks(graph, 1);
  std::mt19937_64 random(5);
  std::vector<Array> given = labelled(random, 5, kClasses);
  for (std::int64_t i = 0; i < 5; ++i) given[0].set(i, i == 3 ? 1 : 0), given[1].set(i, 7);
  const auto run = ranks.everywhere({named(given)});
  ASSERT_FALSE(run.ranks[0]->has_value());
  expect_says(run.ranks[0]->error().text(),
              {"mask_rewrite_index_test.cpp:", "was given index 7 in element 3"});
}

TEST(MaskRewriteIndex, WhereThereMayBeNoElement0_TheCountStays) {
  const auto lookup = [](const Tensors& in) {
    return Tensors{sum(embedding(in[1][in[0]], in[3]))};
  };
  const Graph may_be_empty = traced_labels(lookup, false, dynamic(4, 0));
  EXPECT_EQ(waits(may_be_empty), 1) << may_be_empty.text();
  EXPECT_EQ(waits(traced_labels(lookup, false, dynamic(4, 1))), 0);
  // No row is chosen and nothing can be looked up: no error.
  std::mt19937_64 random(5);
  std::vector<Array> given = labelled(random, 5, 1);
  for (std::int64_t i = 0; i < 5; ++i) given[0].set(i, 0);
  given[2] = Array::zeros(DType::F64, {5, 0});
  given[3] = Array::zeros(DType::F64, {0, 3});
  const auto got = run_interpreted(may_be_empty, named(given));
  ASSERT_TRUE(got) << got.error().text();
}

}  // namespace
}  // namespace lockstep::worker::mask_rewrite_index_test
