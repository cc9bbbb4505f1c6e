// Counts with a bound: the same elements as without one, zeros behind them, and no wait.
#include <algorithm>
#include <random>

#include "on_ranks.h"
#include "tracing.h"
#include "worker/trace/function_runs.h"
#include <gtest/gtest.h>

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/bounded/dispatch.h>
#include <lockstep/worker/tensor/graph/error_sync_points.h>
#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/language/selection_ops.h>

namespace lockstep::worker::bounded_test {
namespace {

using namespace test;  // NOLINT: everything here traces and runs functions

bool waits(const Graph& graph) {
  return std::ranges::any_of(
      graph.nodes, [](const Node& node) { return op_row(node.op).kind == OpClass::HostSync; });
}

/// The first `rows` rows of x, zeros where it has fewer.
Array resized(const Array& x, std::int64_t rows) {
  std::vector<std::int64_t> sizes = x.sizes();
  sizes[0] = rows;
  Array out = Array::zeros(x.dtype(), sizes);
  for (std::int64_t i = 0; i < std::min(x.elements(), out.elements()); ++i) out.set(i, x.at(i));
  return out;
}

TEST(Bounded, IsThePlainWayWithZerosBehind_InValuesAndGradients) {
  constexpr std::int64_t kBound = 7;
  for (const std::int64_t least : {0, 2}) {  // whether there may be no rows at all
    const std::vector<In> inputs{{DType::F64, {dynamic(5, least), 3}},
                                 {DType::Bool, {dynamic(5, least)}}};
    const Graph bounded = must(traced(inputs, [](const Tensors& in) {
      const Tensor &x = in[0], &m = in[1];
      const Bounded rows = select_rows(x, m, at_most(kBound)), at = nonzero(m, at_most(kBound)),
                    each = masked_select(x, unsqueeze(m, 1), at_most(3 * kBound));
      const Tensor loss = sum(rows.values * rows.values) + sum(each.values * 3.0);
      return Tensors{rows.values, rows.count,    at.values,
                     each.values, present(rows), grad(loss, {x})[0]};
    }));
    const Graph plain = must(traced(inputs, [](const Tensors& in) {
      const Tensor &x = in[0], &m = in[1];
      const Tensor rows = x[m], each = masked_select(x, unsqueeze(m, 1));
      const Tensor loss = sum(rows * rows) + sum(each * 3.0);
      return Tensors{rows, scalar(rows.size(0)), nonzero(m), each, grad(loss, {x})[0]};
    }));
    EXPECT_FALSE(waits(bounded)) << bounded.text();
    ASSERT_TRUE(waits(plain));
    OnRanks ranks(bounded, 1), plainly(plain, 1);
    std::mt19937_64 random(81);
    for (const std::int64_t n : {0, 1, 2, 5, 7, 20}) {
      if (n < least) continue;
      const Array x = random_array(random, DType::F64, {n, 3});
      Array m(DType::Bool, {n});
      std::int64_t trues = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        const bool chosen = random() % 2 == 0 && trues < kBound;
        m.set(i, chosen ? 1 : 0);
        trues += chosen ? 1 : 0;
      }
      const auto run = plainly.interpreted({named({x, m})});
      ASSERT_TRUE(run.ranks[0]->has_value()) << run.ranks[0]->error().text();
      const std::vector<Array>& of = run.ranks[0]->value();
      Array there(DType::Bool, {kBound});
      for (std::int64_t i = 0; i < kBound; ++i) there.set(i, i < trues ? 1 : 0);
      expect_everywhere(ranks, {x, m},
                        {resized(of[0], kBound), of[1], resized(of[2], kBound),
                         resized(of[3], 3 * kBound), there, of[4]});
    }
  }
}

TEST(Bounded, MoreThanTheBound_IsAnErrorWithBothNumbers) {
  const Graph graph = must(traced({{DType::Bool, {dynamic(5, 0)}}}, [](const Tensors& in) {
    return Tensors{nonzero(in[0], at_most(3)).values};
  }));
  OnRanks ranks(graph, 1);
  const auto says = [](const OnRanks::Run& run) {
    ASSERT_FALSE(run.ranks[0]->has_value());
    const Status& error = run.ranks[0]->error();
    EXPECT_EQ(error.code, Code::RuntimeAssert);
    EXPECT_NE(error.message.find("nonzero at "), std::string::npos) << error.text();
    EXPECT_NE(error.message.find("found 4, but at_most(3) was declared"), std::string::npos)
        << error.text();
  };
  Array mask = Array::zeros(DType::Bool, {9});
  for (const std::int64_t i : {0, 3, 4, 8}) mask.set(i, 1);
  says(ranks.interpreted({named({mask})}));
  says(ranks.compiled({named({mask})}));
}

TEST(Bounded, BoundsMayBeSizes) {
  const Graph graph = must(traced({{DType::F64, {dynamic(5, 0)}}}, [](const Tensors& in) {
    const Bounded some = masked_select(in[0], in[0] > 0.0, at_most(in[0].size(0)));
    return Tensors{some.values, some.count};
  }));
  EXPECT_FALSE(waits(graph));
  OnRanks ranks(graph, 1);
  expect_everywhere(ranks, {f64({4}, {-1, 2, 0, 3})}, {f64({4}, {2, 3, 0, 0}), integers({}, {2})});
  expect_everywhere(ranks, {f64({0}, {})}, {f64({0}, {}), integers({}, {0})});
}

TEST(Bounded, WhatDoesNotFit_IsRefused) {
  const auto says = [](const std::string& words, const Body& body) {
    const Result<Graph> graph =
        traced({{DType::F64, {dynamic(4), 2}}, {DType::Bool, {dynamic(4)}}}, body);
    ASSERT_FALSE(graph.has_value());
    EXPECT_NE(graph.error().message.find(words), std::string::npos) << graph.error().text();
  };
  says("a bound is not negative",
       [](const Tensors& in) { return Tensors{nonzero(in[1], at_most(-1)).values}; });
  says("takes a mask of bools",
       [](const Tensors& in) { return Tensors{select_rows(in[0], in[0], at_most(2)).values}; });
  says("leading dims", [](const Tensors& in) {
    return Tensors{select_rows(in[1], in[0] > 0.0, at_most(2)).values};
  });
  says("an i64 or i32 target for each",
       [](const Tensors& in) { return Tensors{dispatch(in[0], in[1], 2, at_most(2)).rows}; });
}

TEST(Dispatch, KeepsTheFirstOfEachExpert_AndBringsThemBack) {
  constexpr std::int64_t kExperts = 3, kRoom = 2;
  const Graph graph = must(traced(
      {{DType::F64, {dynamic(5, 0), 2}}, {DType::I64, {dynamic(5, 0)}}}, [](const Tensors& in) {
        const Dispatched sent = dispatch(in[0], in[1], kExperts, at_most(kRoom));
        const Tensor back = combine(sent.rows * 2.0, sent.place);
        return Tensors{sent.rows, sent.counts, sent.place, back,
                       grad(sum(back * back), {in[0]})[0]};
      }));
  EXPECT_FALSE(waits(graph)) << graph.text();
  OnRanks ranks(graph, 1);
  std::mt19937_64 random(82);
  for (const std::int64_t n : {0, 1, 2, 5, 17}) {
    const Array x = random_array(random, DType::F64, {n, 2}),
                target = random_indices(random, n, kExperts);
    Array rows = Array::zeros(DType::F64, {kExperts, kRoom, 2}),
          counts = Array::zeros(DType::I64, {kExperts}), place(DType::I64, {n}),
          back = Array::zeros(DType::F64, {n, 2}), gradient = Array::zeros(DType::F64, {n, 2});
    for (std::int64_t r = 0; r < n; ++r) {
      const auto expert = static_cast<std::int64_t>(target.at(r));
      const auto used = static_cast<std::int64_t>(counts.at(expert));
      place.set(r, static_cast<double>(used < kRoom ? expert * kRoom + used : kExperts * kRoom));
      if (used == kRoom) continue;
      counts.set(expert, static_cast<double>(used + 1));
      for (std::int64_t c = 0; c < 2; ++c) {
        rows.set((expert * kRoom + used) * 2 + c, x.at(2 * r + c));
        back.set(2 * r + c, 2 * x.at(2 * r + c));
        gradient.set(2 * r + c, 8 * x.at(2 * r + c));
      }
    }
    expect_everywhere(ranks, {x, target}, {rows, counts, place, back, gradient});
  }
}

TEST(Dispatch, BetweenRanks_WaitsForNothingBetweenCountsAndRows) {
  const DecisionBuilder decision = DecisionBuilder()
                                       .tensor("x", DType::F64, {dynamic(5, 0), 2})
                                       .tensor("y", DType::I64, {dynamic(5, 0)});
  const Graph graph = must(trace(setup(decision.get(), 4), [](Trace& t) {
    const Tensor x = t.tensor_input(0);
    const Dispatched sent = dispatch(x, t.tensor_input(1), 8, at_most(3));
    const Received here = send_to_owners(sent);
    t.output("counts", here.counts);
    const Tensor y = combine(send_back(here.rows * here.rows), sent.place);
    t.output("grad", grad(sum(y), {x})[0]);
  }));
  EXPECT_FALSE(waits(graph)) << graph.text();
  const ErrorSyncPoints points = error_sync_points(graph);
  std::int64_t exchanges = 0;
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    if (graph.nodes[id].op != Op::AllToAll) continue;
    // What failed before is told by the counts; then no rank can fail until the end.
    EXPECT_EQ(points.before[id], exchanges == 0 ? ErrorSync::Piggybacked : ErrorSync::None)
        << graph.text();
    EXPECT_FALSE(points.compares[id]);
    ++exchanges;
  }
  EXPECT_EQ(exchanges, 5) << "counts, rows there and back, and gradients of both";
}

}  // namespace
}  // namespace lockstep::worker::bounded_test
