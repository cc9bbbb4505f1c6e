// What an exchange of features records: how many collectives, and that nothing else is compared or
// voted on between them.
#include <algorithm>

#include "tracing.h"
#include <gtest/gtest.h>

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/graph/error_sync_points.h>
#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/jagged/feature_exchange.h>
#include <lockstep/worker/tensor/jagged/segments.h>

namespace lockstep::worker::feature_exchange_test {
namespace {

using test::dynamic;
using Owners = std::vector<Rank>;
enum class Do : std::uint8_t { There, ThereAndGradient, ThereAndBack };

Owners dealt(int features, int ranks) {
  Owners owner;
  for (int f = 0; f < features; ++f) owner.push_back(Rank{f * 5 % ranks});
  return owner;
}

Result<Graph> traced(int ranks, const Owners& owner, Do what) {
  test::DecisionBuilder decision;
  decision.tensor("lengths", DType::I64, {static_cast<std::int64_t>(owner.size()), dynamic(5, 0)})
      .tensor("values", DType::F64, {dynamic(40, 0), 3});
  return trace(test::setup(decision.get(), ranks), [&](Trace& t) {
    const Tensor values = t.tensor_input(t.source("values"));
    const KeyedJagged mine =
        exchange_features({values, t.tensor_input(t.source("lengths"))}, owner);
    t.output("lengths", mine.lengths), t.output("values", mine.values);
    if (what == Do::ThereAndGradient)
      t.output("gradient", grad(sum(mine.values * mine.values), {values})[0]);
    if (what != Do::ThereAndBack) return;
    const Tensor sums = segment_sum(all_features(mine));
    const Tensor back =
        exchange_back(reshape(sums, {mine.lengths.size(0), mine.lengths.size(1), 3}), owner);
    t.output("back", back), t.output("gradient", grad(sum(back * back), {values})[0]);
  });
}

std::int64_t collectives(const Graph& graph) {
  return std::ranges::count_if(
      graph.nodes, [](const Node& node) { return op_row(node.op).kind == OpClass::Collective; });
}

TEST(FeatureExchange, OneCollectiveForAllLengthsAndOneForAllValues) {
  for (const int features : {26, 7, 300})
    for (const int ranks : {2, 4, 8}) {
      const Owners owner = dealt(features, ranks);
      for (const auto& [what, expected] :
           {std::pair{Do::There, 2}, {Do::ThereAndGradient, 3}, {Do::ThereAndBack, 5}}) {
        const auto graph = traced(ranks, owner, what);
        ASSERT_TRUE(graph) << graph.error().text();
        EXPECT_EQ(collectives(*graph), expected) << graph->text();
        const ErrorSyncPoints points = error_sync_points(*graph);
        EXPECT_EQ(std::ranges::count(points.compares, true), 0) << "lists that need a comparison";
        EXPECT_EQ(std::ranges::count(points.before, ErrorSync::Vote), 1)
            << "one, that the lengths fit the values, before they move";
      }
    }
}

TEST(FeatureExchange, GraphGrowsWithNeitherFeaturesNorRanks_WhereTheyAreDealtOut) {
  const auto nodes = [](int features, int ranks) {
    const auto graph = traced(ranks, dealt(features, ranks), Do::ThereAndBack);
    return graph ? graph->nodes.size() : 0;
  };
  EXPECT_GT(nodes(26, 2), 0U);
  EXPECT_LE(nodes(416, 4), nodes(208, 4) + 8);
}

TEST(FeatureExchange, WhatDoesNotFit_IsRefused) {
  const auto there = [](const Owners& owner) {
    const auto graph = traced(2, owner, Do::There);
    return graph ? std::string() : graph.error().text();
  };
  EXPECT_NE(
      there({Rank{0}, Rank{2}}).find("feature 1 belongs to rank 2, but the group has 2 ranks"),
      std::string::npos);
  EXPECT_NE(there({Rank{0}, Rank{-1}}).find("feature 1 belongs to rank -1"), std::string::npos);
}

TEST(FeatureExchange, SlotsAndFeaturesOfRanks) {
  const Owners owner{Rank{1}, Rank{0}, Rank{1}, Rank{1}};
  EXPECT_EQ(feature_slots(owner), 3);
  EXPECT_EQ(features_of(owner, Rank{1}), (std::vector<std::int64_t>{0, 2, 3}));
  EXPECT_EQ(features_of(owner, Rank{2}), std::vector<std::int64_t>{});
  EXPECT_EQ(feature_slots({}), 0);
}

}  // namespace
}  // namespace lockstep::worker::feature_exchange_test
