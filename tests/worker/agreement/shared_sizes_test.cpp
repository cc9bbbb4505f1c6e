// The rules of worker/agree/exchange/rules.md, "Consistency": shared_sizes and same_collectives.
#include "virtual_ranks.h"
#include <gtest/gtest.h>

namespace lockstep::worker::shared_sizes_test {
namespace {

constexpr DecisionConfig kShared{.consistency = Consistency::SharedSizes};

Inputs tensor(std::vector<std::int64_t> sizes) { return Inputs().tensor("x", std::move(sizes)); }
Inputs integer(std::int64_t value) { return Inputs().integer("x", value); }

std::string reported(VirtualRanks& ranks) {
  return decision_text(ranks.frame(0).entries.back().reported);
}
std::string own(VirtualRanks& ranks, int rank) {
  std::string text = decision_text(ranks.frame(rank).entries.back().decision);
  return text.substr(0, text.find(" |"));
}

TEST(SharedSizes, DifferentInputs_AreNoError_EachRankCompilesItsOwn) {
  VirtualRanks ranks(3, kShared);
  const std::vector<Inputs> inputs{tensor({4, 2}).boolean("b", true), tensor({3}),
                                   Inputs().boolean("b", false)};
  EXPECT_EQ(outcome_text(ranks.joint(inputs)), "compiled 0");
  EXPECT_EQ(own(ranks, 0), "b: bool true; x: f32[s0, s1]");
  EXPECT_EQ(own(ranks, 1), "x: f32[s0]");
  EXPECT_EQ(own(ranks, 2), "b: bool false");
  EXPECT_EQ(reported(ranks),
            "b: bool true; x: f32[s0, s1] | s0 = x.size(0) min 2 hint 4, s1 = x.size(1) min 2 hint "
            "2");
  for (int r = 1; r < 3; ++r) {
    EXPECT_EQ(ranks.frame(r).entries[0].reported, ranks.frame(0).entries[0].reported);
    EXPECT_EQ(ranks.frame(r).state, ranks.frame(0).state);
    EXPECT_EQ(ranks.frame(r).digest(), ranks.frame(0).digest());
  }
  EXPECT_EQ(outcome_text(ranks.joint(inputs)), "reused 0");
  EXPECT_EQ(ranks.votes, 1);
}

TEST(SharedSizes, SourceMissingOnARank_ContributesNothing) {
  VirtualRanks ranks(2, kShared);
  ranks.joint({Inputs().tensor("a", {10}), Inputs().tensor("b", {12})});
  EXPECT_EQ(reported(ranks), "a: f32[10]; b: f32[12]");
  ranks.joint({Inputs().tensor("b", {10}), Inputs().tensor("b", {12})});
  EXPECT_EQ(reported(ranks), "b: f32[s0] | s0 = b.size(0) min 2 hint 10");
}

TEST(SharedSizes, TensorAgainstInt_IsFullyDynamic_HintFromTheRankThatHasTheKind) {
  VirtualRanks ranks(2, kShared);
  ranks.joint({integer(12), tensor({10})});
  EXPECT_EQ(reported(ranks), "x: int s0 | s0 = x hint 12");
  EXPECT_EQ(own(ranks, 1), "x: f32[s0]");
  EXPECT_EQ(outcome_text(ranks.joint({integer(10), tensor({12})})), "reused 0");
}

TEST(SharedSizes, Marks_GoByDimIndexOverTheRanksThatHaveTheDim) {
  VirtualRanks ranks(3, kShared);
  const auto outcome = ranks.joint({integer(3), tensor({4}).mark("x", 0, Mark::Static),
                                    tensor({4, 5}).mark("x", 0, Mark::Dynamic)});
  ASSERT_EQ(outcome.kind, CallOutcome::Kind::Error);
  EXPECT_EQ(outcome.error->code, Code::MarkConflict);
  EXPECT_EQ(outcome.error->source, "x.size(0)");
  ASSERT_EQ(outcome.error->groups.size(), 2U);
  EXPECT_EQ(outcome.error->groups[0].ranks.text(), "1");
  const auto violation =
      ranks.joint({integer(3), tensor({4}).mark("x", 0, Mark::Static), tensor({5, 5})});
  EXPECT_EQ(violation.error->code, Code::ConstraintViolation);
  const auto fine =
      ranks.joint({integer(3), tensor({4}), tensor({4, 5}).mark("x", 1, Mark::Static)});
  EXPECT_EQ(outcome_text(fine), "compiled 0");
  EXPECT_EQ(own(ranks, 2), "x: f32[s0, 5]");
}

TEST(SharedSizes, Bound_CountsTheSymbolsOfAllRanks) {
  VirtualRanks ranks(2, kShared);
  ranks.joint({tensor({4}), tensor({4, 1})});
  EXPECT_EQ(reported(ranks), "x: f32[s0] | s0 = x.size(0) min 0 hint 4");
}

TEST(SharedSizes, FewestSymbols_CountsThoseReported) {
  VirtualRanks ranks(2, kShared);
  const auto pair = [](std::int64_t a, std::int64_t b) {
    return Inputs().tensor("x", {a}).tensor("y", {b});
  };
  ranks.joint({tensor({4}), pair(4, 7)});
  ranks.joint({tensor({4}), pair(4, 8)});
  EXPECT_EQ(reported(ranks), "x: f32[4]; y: f32[s0] | s0 = y.size(0) min 2 hint 8");
  EXPECT_EQ(outcome_text(ranks.joint({tensor({4}), pair(4, 7)})), "reused 0");
}

TEST(SharedSizes, Superseded_OnlyIfThatHoldsOnEveryRank) {
  VirtualRanks ranks(2, kShared);
  const auto in = [](std::int64_t size, bool flag) {
    return tensor({size}).mark("x", 0, Mark::MaybeDynamic).boolean("b", flag);
  };
  ranks.joint({in(4, true), in(4, true)});
  ranks.joint({in(1, true), in(1, false)});
  EXPECT_FALSE(ranks.frame(0).entries[0].superseded) << "rank 1's entry 0 has another bool";
  EXPECT_FALSE(ranks.frame(1).entries[0].superseded);
  ranks.joint({in(1, true), in(1, true)});
  EXPECT_TRUE(ranks.frame(0).entries[0].superseded);
  EXPECT_TRUE(ranks.frame(1).entries[0].superseded);
  EXPECT_EQ(ranks.frame(0).digest(), ranks.frame(1).digest());
}

TEST(SharedSizes, HintDonorLacksTheSource_TheReportedRankGivesIt) {
  VirtualRanks ranks(3, kShared);
  const auto dynamic = [](Inputs in, const std::string& name) {
    return in.mark(name, 0, Mark::Dynamic);
  };
  ranks.joint({dynamic(Inputs().tensor("a", {3}), "a"), dynamic(Inputs().tensor("b", {6}), "b"),
               dynamic(Inputs().tensor("b", {7}), "b")});
  EXPECT_EQ(reported(ranks),
            "a: f32[s0]; b: f32[s1] | s0 = a.size(0) pinned min 2 hint 3, s1 = b.size(0) pinned "
            "min 2 hint 6");
}

TEST(SharedSizes, GraphsDiffer_IsFine) {
  VirtualRanks ranks(2, kShared);
  ranks.tracer = [](Rank rank, const Decision&) {
    TraceReport report;
    report.graph = {1, static_cast<std::uint64_t>(rank.value)};
    report.collectives = report.graph;
    return report;
  };
  EXPECT_EQ(outcome_text(ranks.joint({tensor({4}), tensor({5})})), "compiled 0");
}

TEST(SameCollectives, GraphsDiffer_IsFine_ListsOfCollectivesMayNot) {
  VirtualRanks ranks(2, {.consistency = Consistency::SameCollectives});
  bool same = true;
  ranks.tracer = [&same](Rank rank, const Decision&) {
    TraceReport report;
    report.graph = {1, static_cast<std::uint64_t>(rank.value)};
    report.collectives = {2, same ? 0U : static_cast<std::uint64_t>(rank.value)};
    return report;
  };
  EXPECT_EQ(outcome_text(ranks.joint({tensor({4}), tensor({5})})), "compiled 0");
  same = false;
  const auto outcome = ranks.joint({tensor({4, 1}), tensor({5, 1})});
  ASSERT_EQ(outcome.kind, CallOutcome::Kind::Error);
  EXPECT_EQ(outcome.error->code, Code::GraphDivergence);
  EXPECT_EQ(outcome.error->groups.size(), 2U);
  EXPECT_EQ(ranks.joint({tensor({4}), integer(5)}).error->code, Code::KindMismatch);
}

TEST(SharedSizes, QuestionsToTheGroup_MayNotDiffer_ForAWitnessVoteIsForAll) {
  VirtualRanks ranks(2, kShared);
  ranks.tracer = [](Rank rank, const Decision&) {
    TraceReport report;
    const auto small = shapes::less(shapes::Expr::symbol({false, 0}), 100);
    if (rank.value == 1) report.group_guards = {{small, GroupGuard::Over::Any, true, {}}};
    return report;
  };
  const auto outcome = ranks.joint({tensor({4}), tensor({5})});
  ASSERT_EQ(outcome.kind, CallOutcome::Kind::Error);
  EXPECT_EQ(outcome.error->code, Code::GraphDivergence);
  EXPECT_EQ(outcome.error->groups.size(), 2U);
}

TEST(SameCollectives, Hints_AreEachRanksOwn_SoThatBranchesHold) {
  VirtualRanks ranks(2, {.consistency = Consistency::SameCollectives});
  std::vector<std::int64_t> hints(2);
  ranks.tracer = [&hints](Rank rank, const Decision& decision) {
    hints[static_cast<std::size_t>(rank.value)] = decision.symbols.at(0).hint;
    return TraceReport{};
  };
  ranks.joint({tensor({4}), tensor({5})});
  EXPECT_EQ(hints, (std::vector<std::int64_t>{4, 5}));
  EXPECT_EQ(reported(ranks), "x: f32[s0] | s0 = x.size(0) min 2 hint 4");
}

}  // namespace
}  // namespace lockstep::worker::shared_sizes_test
