// What a graph says of sizes that are the same on all ranks: what its collectives need of the vote,
// what follows, and what is left to be compared when it runs.
#include <algorithm>

#include "tracing.h"
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/graph/error_sync_points.h>
#include <lockstep/worker/tensor/graph/uniform_facts.h>
#include <lockstep/worker/tensor/language/collective_ops.h>

namespace lockstep::worker::uniform_facts_test {
namespace {

using collectives::Reduce;
using test::DecisionBuilder;
using test::dynamic;

constexpr int kRanks = 4;

Group tensor_group() {
  RankSet pair;
  pair.insert({0, 1});
  return {"tensor", pair, Rank{0}};
}

/// x is [s0, s1], counts i64 [4].
Graph traced(const std::function<void(Trace&, Tensor, Tensor)>& body, bool peers_may_differ = false,
             const Nesting& nesting = {}) {
  DecisionBuilder decision;
  decision.tensor("counts", DType::I64, {kRanks})
      .tensor("x", DType::F64, {dynamic(8, 0), dynamic(6, 0)});
  TraceSetup setup = test::setup(decision.get(), kRanks);
  setup.peers_may_differ = peers_may_differ;
  setup.nesting = &nesting;
  setup.group = {"", RankSet::all(kRanks), Rank{0}};
  auto made = trace(setup, [&](Trace& t) {
    body(t, t.tensor_input(t.source("x")), t.tensor_input(t.source("counts")));
  });
  EXPECT_TRUE(made) << made.error().text();
  return made ? *made : Graph{};
}

/// "s0, tensor: s1"
std::string needs(const Graph& graph) {
  std::vector<std::string> out;
  for (const UniformSize& size : graph.uniform)
    out.push_back((size.group.empty() ? "" : size.group + ": ") + size.expr.text());
  return fmt::format("{}", fmt::join(out, ", "));
}

/// Sizes that are compared when it runs, and rounds before collectives.
std::pair<std::size_t, std::ptrdiff_t> compared(const Graph& graph) {
  const ErrorSyncPoints points = error_sync_points(graph);
  std::size_t sizes = 0;
  for (const auto& same : points.same) sizes += same.size();
  EXPECT_EQ(std::ranges::count(points.compares, true), 0) << graph.text();
  return {sizes, std::ranges::count(points.before, ErrorSync::Vote)};
}
const std::pair<std::size_t, std::ptrdiff_t> kNothing{0, 0};

TEST(UniformFacts, ACollectiveNeedsItsSizes_EachOnce_AndARunCostsNothing) {
  const Graph graph = traced([](Trace& t, Tensor x, Tensor) {
    const Tensor y = all_reduce(all_gather(x));
    t.output("y", broadcast(y * 2.0, Rank{1}));
    t.output("g", grad(sum(y), {x})[0]);
  });
  EXPECT_EQ(needs(graph), "s0, s1");
  EXPECT_EQ(compared(graph), kNothing);
}

TEST(UniformFacts, WhatIsComputedFromUniformSizes_NeedsNoMore) {
  const Graph graph = traced([](Trace& t, Tensor x, Tensor) {
    t.output("y", all_reduce(x));
    const SymInt rows = x.size(0), columns = x.size(1);
    const Tensor z = full(t, {rows * columns + 3, max(rows, columns) / 2}, 1, DType::F64);
    t.output("z", all_reduce(z));
  });
  EXPECT_EQ(needs(graph), "s0, s1");
}

TEST(UniformFacts, WhatTellsAFunctionOfASize_DoesNotTellTheSize) {
  const Graph graph = traced([](Trace& t, Tensor x, Tensor) {
    t.output("y", all_reduce(full(t, {x.size(0) / 2 + 1}, 1, DType::F64)));
    t.output("z", all_reduce(full(t, {x.size(0) / 2 * 3 + 5}, 1, DType::F64)));
    t.output("w", all_reduce(full(t, {x.size(0)}, 1, DType::F64)));
  });
  EXPECT_EQ(graph.uniform.size(), 2U) << needs(graph);
  EXPECT_EQ(graph.uniform.at(1).expr.text(), "s0");
}

TEST(UniformFacts, OverAGroup_IsComparedOnceWithItsFirstCollective) {
  const Group tensor = tensor_group();
  const Graph graph = traced([&](Trace& t, Tensor x, Tensor) {
    const Tensor y = all_reduce(full_like(sum(x, {1}), 1), Reduce::Sum, tensor);
    t.output("y", y);
    t.output("z", all_reduce(x, Reduce::Max, tensor));
  });
  EXPECT_EQ(needs(graph), "tensor: s0, tensor: s1");
  EXPECT_EQ(compared(graph), (std::pair<std::size_t, std::ptrdiff_t>{2, 1}));
}

TEST(UniformFacts, TheFramesGroup_ContainsAllOthers_AndNotTheOtherWayRound) {
  const Group tensor = tensor_group();
  const Graph inherits = traced([&](Trace& t, Tensor x, Tensor) {
    check_same(x.size(0));
    check_same(x.size(1));
    t.output("y", all_reduce(x, Reduce::Sum, tensor));
  });
  EXPECT_EQ(needs(inherits), "s0, s1");
  EXPECT_EQ(compared(inherits), kNothing);
  const Graph asks = traced([&](Trace& t, Tensor x, Tensor) {
    t.output("y", all_reduce(all_reduce(sum(x, {1}), Reduce::Sum, tensor)));
  });
  EXPECT_EQ(needs(asks), "tensor: s0, s0");
}

TEST(UniformFacts, AGroupWithinAnother_Inherits_WhicheverIsNamedFirst) {
  const Group tensor = tensor_group(), stage{"stage", RankSet::all(kRanks), Rank{0}};
  const Nesting nesting{{"stage", {"tensor"}}};
  const auto first = [](const Group& a, const Group& b) {
    return [=](Trace& t, Tensor x, Tensor) {
      const Tensor y = all_reduce(sum(x, {1}), Reduce::Sum, a);
      t.output("y", y);
      t.output("z", all_reduce(y * 2.0, Reduce::Max, b));
    };
  };
  EXPECT_EQ(needs(traced(first(stage, tensor), false, nesting)), "stage: s0");
  EXPECT_EQ(compared(traced(first(stage, tensor), false, nesting)).first, 1U);
  // What the inner one compares first says nothing of the outer one; nor does a group elsewhere.
  EXPECT_EQ(needs(traced(first(tensor, stage), false, nesting)), "tensor: s0, stage: s0");
  EXPECT_EQ(needs(traced(first(stage, tensor))), "stage: s0, tensor: s0");
}

TEST(UniformFacts, EvenSplits_OfASymbol_NeedItAndItsShare) {
  const Graph graph = traced([](Trace& t, Tensor x, Tensor) {
    t.output("y", all_to_all_single(x) + x);
    t.output("z", reduce_scatter(x));
  });
  EXPECT_EQ(compared(graph), kNothing);
  for (const UniformSize& size : graph.uniform)
    EXPECT_TRUE(size.expr.text() == "s1" || size.expr.text() == "s0" ||
                size.expr.text() == "s0 // 4")
        << needs(graph);
}

TEST(UniformFacts, IntegersThatAllRanksHaveAlike_AreUniformWhenReadBack) {
  const auto padded_to = [](const std::function<SymInt(Tensor)>& most) {
    return compared(traced([&](Trace& t, Tensor, Tensor counts) {
      t.output("y", all_reduce(full(t, {most(counts)}, 1, DType::F64)));
    }));
  };
  const auto read = [](const Tensor& x) { return item(x, Values::NonNegative); };
  EXPECT_EQ(padded_to([&](Tensor c) { return read(all_reduce(amax(c), Reduce::Max)); }).first, 0U);
  EXPECT_EQ(padded_to([&](Tensor c) { return read(sum(all_reduce(c))); }).first, 0U);
  EXPECT_EQ(padded_to([&](Tensor c) { return read(amax(all_gather(c))); }).first, 0U);
  EXPECT_EQ(padded_to([&](Tensor c) { return read(amax(broadcast(c, Rank{2}))); }).first, 0U);
  // Of floats what is moved, chosen and compared, but not what is computed.
  const auto of_float = [&](const Tensor& c, Reduce reduce, double factor) {
    const Tensor x = all_reduce(cast(amax(c), DType::F64), reduce);
    return read(cast(factor == 1 ? x : x * factor, DType::I64));
  };
  EXPECT_EQ(padded_to([&](Tensor c) { return of_float(c, Reduce::Max, 1); }).first, 0U);
  EXPECT_EQ(padded_to([&](Tensor c) { return of_float(c, Reduce::Sum, 1); }).first, 1U);
  EXPECT_EQ(padded_to([&](Tensor c) { return of_float(c, Reduce::Max, 1.5); }).first, 1U);
  // Not what each rank has of its own.
  EXPECT_EQ(padded_to([&](Tensor c) { return read(amax(c)); }).first, 1U);
  EXPECT_EQ(padded_to([&](Tensor c) { return read(amax(reduce_scatter(c))); }).first, 1U);
  EXPECT_EQ(padded_to([&](Tensor c) { return read(amax(all_to_all_single(c))); }).first, 1U);
  EXPECT_EQ(padded_to([&](Tensor c) {
              return read(all_reduce(amax(c), Reduce::Max, tensor_group()));
            }).first,
            1U);
  EXPECT_EQ(padded_to([&](Tensor c) {
              return read(all_reduce(amax(c), Reduce::Max) + group_rank(c));
            }).first,
            1U);
}

TEST(UniformFacts, WhatHasBeenCompared_IsNotComparedAgain) {
  const Graph graph = traced([](Trace& t, Tensor, Tensor counts) {
    const SymInt n = item(amax(counts), Values::NonNegative);
    t.output("y", all_reduce(full(t, {n}, 1, DType::F64)));
    t.output("z", all_gather(full(t, {2 * n, 3}, 1, DType::F64)));
  });
  EXPECT_EQ(compared(graph), (std::pair<std::size_t, std::ptrdiff_t>{1, 1}));
}

TEST(UniformFacts, RowsThatDiffer_CostAnExchangeOfCountsAndNoRound) {
  const Graph gathered = traced([](Trace& t, Tensor x, Tensor) {
    const Tensor y = all_gather(x, 0);
    t.output("y", y);
    t.output("g", grad(sum(y * y), {x})[0]);
  });
  EXPECT_EQ(needs(gathered), "s1");
  EXPECT_EQ(compared(gathered), kNothing) << gathered.text();
  EXPECT_FALSE(error_sync_points(gathered).at_end) << gathered.text();
}

TEST(UniformFacts, ListsOfSharesAndRoutes_AreProvenToFit) {
  const Graph graph = traced([](Trace& t, Tensor x, Tensor) {
    t.output("y", reduce_scatter(x, x.size(0) / 4, 0));
    t.output("z", send_recv(x, {{Rank{0}, Rank{1}}, {Rank{1}, Rank{3}}}));
  });
  EXPECT_EQ(std::ranges::count(error_sync_points(graph).compares, true), 0) << graph.text();
}

TEST(UniformFacts, WhereGraphsMayDiffer_SymbolsAreComparedEachTime_AndTheVoteHasNone) {
  const Graph graph = traced(
      [](Trace& t, Tensor x, Tensor) {
        check_same(x.size(0));
        t.output("y", all_reduce(all_reduce(x)));
      },
      true);
  EXPECT_EQ(needs(graph), "");
  EXPECT_EQ(compared(graph).first, 4U);
  EXPECT_EQ(graph.joint_prefixes().size(), 4U);  // check_same is a collective and a value read back
}

/// Counts how often the group is asked.
class AskedHost final : public TraceHost {
 public:
  Result<bool> group_any(bool mine, const shapes::Predicate&) override {
    ++asked;
    return mine;
  }
  Result<std::int64_t> broadcast_from_lowest(std::int64_t mine) override { return mine; }
  int asked = 0;
};

TEST(UniformFacts, AQuestionOfTheGroup_AboutUniformSizes_AsksNobodyAndIsAGuard) {
  DecisionBuilder decision;
  decision.tensor("x", DType::F64, {dynamic(8, 0), dynamic(6, 0)});
  AskedHost host;
  TraceSetup setup = test::setup(decision.get(), kRanks);
  setup.host = &host;
  const auto made = trace(setup, [&](Trace& t) {
    const Tensor x = t.tensor_input(t.source("x"));
    t.output("y", all_reduce(sum(x, {1})));
    const bool big = group_any(x.size(0) > 5);
    const bool wide = group_any(x.size(1) > 100);
    t.output("z", x * (big ? 2.0 : wide ? 3.0 : 1.0));
  });
  ASSERT_TRUE(made) << made.error().text();
  EXPECT_EQ(host.asked, 1);
  EXPECT_EQ(made->group_guards.size(), 1U);
  EXPECT_EQ(made->guards.size(), 1U);
}

}  // namespace
}  // namespace lockstep::worker::uniform_facts_test
