// Sizes that the ranks need alike, in the agreement alone: what a vote says of them, which entry
// serves a call where they differ, and what the error names.
#include <algorithm>
#include <random>

#include "virtual_ranks.h"
#include <fmt/format.h>
#include <gtest/gtest.h>

namespace lockstep::worker::uniform_agreement_test {
namespace {

using shapes::Expr;
using Kind = CallOutcome::Kind;

Expr symbol(std::uint32_t serial) { return Expr::symbol({false, serial}); }

/// A program that needs x.size(0) alike, where that is a symbol, unless some rank has more than 9
/// rows; its answer to that question is the group's.
TraceReport padded_or_not(const Decision& decision, bool some_rank_has_many) {
  TraceReport report;
  report.graph = {some_rank_has_many ? 2U : 1U, 1};
  const DimDecision& rows = decision.sources[0].dims[0];
  if (!rows.is_symbol) return report;
  const Expr x = symbol(rows.symbol);
  report.group_guards = {
      {shapes::greater(x, 9), GroupGuard::Over::Any, some_rank_has_many, {"pad.cpp", 3}}};
  if (!some_rank_has_many) report.uniform = {{x, "", "all_reduce", {"pad.cpp", 5}}};
  return report;
}

std::vector<Inputs> rows(const std::vector<std::int64_t>& sizes) {
  std::vector<Inputs> inputs;
  for (const std::int64_t size : sizes) inputs.push_back(Inputs().tensor("x", {size, 3}));
  return inputs;
}

CallOutcome call(VirtualRanks& ranks, const std::vector<std::int64_t>& sizes) {
  const bool many = std::ranges::any_of(sizes, [](std::int64_t size) { return size > 9; });
  ranks.tracer = [many](Rank, const Decision& decision) { return padded_or_not(decision, many); };
  return ranks.joint(rows(sizes));
}

TEST(UniformAgreement, AHit_CostsOneVote) {
  VirtualRanks ranks(3);
  EXPECT_EQ(call(ranks, {4, 4, 4}).kind, Kind::Compiled);
  EXPECT_EQ(call(ranks, {5, 5, 5}).kind, Kind::Compiled);
  EXPECT_EQ(outcome_text(call(ranks, {7, 7, 7})), "reused 1");
  EXPECT_EQ(ranks.votes, 1);
  EXPECT_EQ(ranks.exchanges + ranks.broadcasts, 0);
}

TEST(UniformAgreement, ADifference_NamesTheSizeItsValuesAndTheLine_AndChangesNothing) {
  VirtualRanks ranks(3);
  (void)call(ranks, {4, 4, 4});
  (void)call(ranks, {5, 5, 5});
  const std::uint64_t before = ranks.frame(0).digest();
  const CallOutcome outcome = call(ranks, {7, 8, 7});
  ASSERT_EQ(outcome.kind, Kind::Error);
  EXPECT_EQ(outcome.error->code, Code::ConstraintViolation);
  EXPECT_EQ(outcome.error->source, "x.size(0)");
  EXPECT_NE(outcome.error->message.find("all_reduce at pad.cpp:5"), std::string::npos)
      << outcome.error->message;
  ASSERT_EQ(outcome.error->groups.size(), 2U);
  EXPECT_EQ(outcome.error->groups[0].ranks.text(), "0,2");
  EXPECT_EQ(outcome.error->groups[0].value, "7");
  EXPECT_EQ(outcome.error->groups[1].value, "8");
  EXPECT_EQ(ranks.frame(1).digest(), before);
  EXPECT_EQ(outcome_text(call(ranks, {8, 8, 8})), "reused 1");
}

TEST(UniformAgreement, AnEntryThatNeedsNone_ServesTheCall) {
  VirtualRanks ranks(2);
  (void)call(ranks, {4, 4});
  (void)call(ranks, {5, 5});
  EXPECT_EQ(call(ranks, {11, 12}).kind, Kind::Compiled);
  EXPECT_EQ(outcome_text(call(ranks, {13, 2})), "reused 2");
  EXPECT_EQ(outcome_text(call(ranks, {6, 6})), "reused 1");
}

/// Entries 1 and 2 need another dim alike each.
TEST(UniformAgreement, OnlyEntriesWhoseOwnSizesDiffer_DropOut) {
  VirtualRanks ranks(2);
  std::uint32_t needed = 0;
  ranks.tracer = [&](Rank, const Decision& decision) {
    TraceReport report;
    report.graph = {7, needed};
    if (decision.symbols.size() < 2) return report;
    report.guards = {
        {needed == 0 ? shapes::less(symbol(0), 20) : shapes::less(symbol(1), 20), {"t.cpp", 1}}};
    report.uniform = {{symbol(needed), "", "all_gather", {"t.cpp", 2}}};
    return report;
  };
  const auto call = [&](std::vector<std::array<std::int64_t, 2>> sizes) {
    std::vector<Inputs> inputs;
    for (const auto& [a, b] : sizes) inputs.push_back(Inputs().tensor("x", {a, b}));
    return ranks.joint(inputs);
  };
  (void)call({{4, 5}, {4, 5}});
  EXPECT_EQ(outcome_text(call({{6, 7}, {6, 8}})), "compiled 1");  // rows alike
  needed = 1;
  EXPECT_EQ(outcome_text(call({{30, 7}, {31, 7}})), "compiled 2");  // columns alike
  // Both entries fit each rank by its guards; one of them by what the ranks have alike.
  EXPECT_EQ(outcome_text(call({{6, 9}, {6, 8}})), "reused 1");
  EXPECT_EQ(outcome_text(call({{6, 9}, {7, 9}})), "reused 2");
  EXPECT_EQ(outcome_text(call({{6, 9}, {6, 9}})), "reused 1");
  EXPECT_EQ(ranks.votes, 1);
}

TEST(UniformAgreement, AMarkedDim_ThatDiffers_IsAnErrorAtAHitToo) {
  VirtualRanks ranks(3);
  const auto marked = [](std::vector<std::int64_t> sizes, int marks) {
    std::vector<Inputs> inputs = rows(sizes);
    for (int r = 0; r < marks; ++r) inputs[static_cast<std::size_t>(r)].mark("x", 0, Mark::Uniform);
    return inputs;
  };
  EXPECT_EQ(outcome_text(ranks.joint(marked({4, 4, 4}, 3))), "compiled 0");
  EXPECT_EQ(outcome_text(ranks.joint(marked({6, 6, 6}, 3))), "reused 0");
  EXPECT_EQ(ranks.votes, 1);
  // Said by one rank, it holds for all.
  EXPECT_EQ(outcome_text(ranks.joint(marked({6, 6, 6}, 1))), "reused 0");
  for (const int marks : {1, 2, 3}) {
    const CallOutcome outcome = ranks.joint(marked({6, 6, 7}, marks));
    ASSERT_EQ(outcome.kind, Kind::Error) << marks;
    EXPECT_EQ(outcome.error->code, Code::ConstraintViolation);
    EXPECT_NE(outcome.error->message.find("is marked uniform"), std::string::npos);
  }
  EXPECT_EQ(outcome_text(ranks.joint(marked({6, 6, 7}, 0))), "reused 0");
}

/// A frame that needs a random set of sizes alike, by calls with random sizes.
TEST(UniformAgreement, RandomNeeds_AreHeldInEveryCallThatRuns) {
  int reused = 0, refused = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937_64 random(seed);
    const auto below = [&](int limit) {
      return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(limit));
    };
    const int size = 1 + static_cast<int>(below(5));
    VirtualRanks ranks(size, {.recompile_limit = 4});
    const std::int64_t dims = 1 + below(3);
    // By dim of x, whether it is needed alike; the last need is the sum of two.
    std::vector<bool> needed;
    for (std::int64_t d = 0; d < dims; ++d) needed.push_back(below(2) == 0);
    const bool sum = dims > 1 && below(3) == 0;
    ranks.tracer = [&](Rank, const Decision& decision) {
      TraceReport report;
      report.graph = {3, 3};
      std::vector<Expr> sizes;
      for (const DimDecision& dim : decision.sources[0].dims)
        sizes.push_back(dim.is_symbol ? symbol(dim.symbol) : Expr(dim.value));
      const auto need = [&](const Expr& e) {
        if (!e.constant()) report.uniform.push_back({e, "", "need", {"n.cpp", 1}});
      };
      for (std::size_t d = 0; d < sizes.size(); ++d)
        if (needed[d]) need(sizes[d]);
      if (sum) need(sizes[0] + sizes[1]);
      return report;
    };
    std::vector<std::int64_t> common(static_cast<std::size_t>(dims), 3);
    for (int call = 0; call < 12; ++call) {
      for (auto& s : common)
        if (below(3) == 0) s = 2 + below(4);
      std::vector<std::vector<std::int64_t>> all;
      std::vector<Inputs> inputs;
      for (int r = 0; r < size; ++r) {
        all.push_back(common);
        for (auto& s : all.back())
          if (below(8) == 0) s = 2 + below(4);
        inputs.push_back(Inputs().tensor("x", all.back()));
      }
      bool alike = true;
      for (const auto& mine : all) {
        for (std::size_t d = 0; d < needed.size(); ++d)
          alike = alike && (!needed[d] || mine[d] == all[0][d]);
        if (sum) alike = alike && mine[0] + mine[1] == all[0][0] + all[0][1];
      }
      const CallOutcome outcome = ranks.joint(inputs);
      // A size that differs is a symbol, so what needs it cannot have taken it for a number.
      ASSERT_EQ(outcome.kind != Kind::Error, alike) << outcome_text(outcome);
      reused += outcome.kind == Kind::Reused ? 1 : 0;
      refused += alike ? 0 : 1;
    }
  }
  EXPECT_GT(reused, 500);
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace lockstep::worker::uniform_agreement_test
