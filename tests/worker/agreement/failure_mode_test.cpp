// Failure modes of distributed training as they were reported elsewhere, by the numbers of the list
// in README.md here: those that the agreement alone can show.
#include "virtual_ranks.h"
#include <gtest/gtest.h>

namespace lockstep::worker::failure_mode_test {
namespace {

Inputs x(std::int64_t size) { return Inputs().tensor("x", {size}); }

std::string outcome(VirtualRanks& ranks, const std::vector<Inputs>& inputs) {
  return outcome_text(ranks.joint(inputs));
}

/// Whether ranks with these keys take their votes for votes of one round.
bool meet(const RoundKey& a, const RoundKey& b) {
  auto both = collectives::Vote::of(1, a.hash(), 0, 0);
  const auto other = collectives::Vote::of(1, b.hash(), 0, 0);
  for (std::size_t i = 0; i < both.words.size(); ++i) both.words[i] &= other.words[i];
  return both.same_key();
}

TEST(FailureMode03, OneRankRecompiles_AllDo) {
  VirtualRanks ranks(4);
  EXPECT_EQ(outcome(ranks, {x(8), x(8), x(8), x(8)}), "compiled 0");
  EXPECT_EQ(outcome(ranks, {x(8), x(8), x(9), x(8)}), "compiled 1");
  EXPECT_EQ(outcome(ranks, {x(9), x(7), x(8), x(5)}), "reused 1");
  for (int r = 0; r < 4; ++r) EXPECT_EQ(ranks.frame(r).entries.size(), 2U);
}

TEST(FailureMode04, RankWithoutAGraph_TakesPart_AndTheDifferenceIsNamed) {
  VirtualRanks ranks(4, {.consistency = Consistency::SharedSizes});
  ranks.tracer = [](Rank rank, const Decision& decision) {
    TraceReport report;
    if (rank.value != 2) report.graph = decision.digest();
    return report;
  };
  EXPECT_EQ(outcome(ranks, {x(3), x(4), x(5), x(6)}), "compiled 0");
  VirtualRanks strict(4);
  strict.tracer = ranks.tracer;
  const auto error = strict.joint({x(3), x(4), x(5), x(6)}).error.value_or(Status{});
  EXPECT_EQ(error.code, Code::GraphDivergence);
  ASSERT_EQ(error.groups.size(), 2U);
  EXPECT_EQ(error.groups[1].ranks, RankSet::of({2}));
}

TEST(FailureMode05, EntryThatOneRankLacks_IsNotRunByTheOthers) {
  VirtualRanks ranks(4);
  EXPECT_EQ(outcome(ranks, {x(8), x(8), x(8), x(8)}), "compiled 0");
  ranks.frame(2) = CodeCache("f");
  const auto error = ranks.joint({x(8), x(8), x(8), x(8)}).error.value_or(Status{});
  EXPECT_EQ(error.code, Code::GraphDivergence);
  // Rank 0 has it still, and would be alone with it.
  EXPECT_NE(ranks.frame(0).lookup(x(8).build()), 0U);
}

TEST(FailureMode11, EqualCountsOfOtherContents_AreToldApart) {
  const auto named = [](const char* name) { return Inputs().tensor(name, {4}).integer("n", 2); };
  VirtualRanks sources(4);
  const auto error =
      sources.joint({named("a"), named("a"), named("b"), named("a")}).error.value_or(Status{});
  EXPECT_EQ(error.code, Code::SourceMismatch);
  EXPECT_EQ(error.source, "a");
  // As many nodes on every rank; one of them is another on rank 3.
  VirtualRanks graphs(4);
  graphs.tracer = [](Rank rank, const Decision&) {
    TraceReport report;
    for (std::uint64_t node = 1; node <= 6; ++node)
      report.prefixes.push_back({node, rank.value == 3 && node >= 5 ? 1U : 0U});
    report.graph = report.prefixes.back();
    return report;
  };
  graphs.explainer = [](Rank rank, std::size_t node) {
    EXPECT_EQ(node, 4U);
    return std::string(rank.value == 3 ? "mul" : "add");
  };
  const auto divergence = graphs.joint({x(4), x(4), x(4), x(4)}).error.value_or(Status{});
  EXPECT_EQ(divergence.code, Code::GraphDivergence);
  ASSERT_EQ(divergence.groups.size(), 2U);
  EXPECT_EQ(divergence.groups[1].ranks, RankSet::of({3}));
  EXPECT_EQ(divergence.groups[1].value, "mul");
}

TEST(FailureMode12, AttemptIsInTheKey_AndARetryRepeatsNoRound) {
  RoundKey first{.frame = "f", .round = 3, .call = 3, .attempt = 0}, second = first;
  EXPECT_TRUE(meet(first, second));
  second.attempt = 1;
  EXPECT_FALSE(meet(first, second));
  // A trace that fails on one rank is given up by all: the next one starts from nothing.
  VirtualRanks fresh(3), ranks(3);
  const auto plain = ranks.tracer;
  ranks.tracer = [](Rank rank, const Decision& decision) {
    TraceReport report;
    report.graph = decision.digest();
    if (rank.value == 1) report.failure = Status{Code::TraceError, "no", "", {}};
    return report;
  };
  EXPECT_EQ(ranks.joint({x(4), x(5), x(4)}).kind, CallOutcome::Kind::Error);
  ranks.tracer = plain;
  EXPECT_EQ(outcome(ranks, {x(4), x(5), x(4)}), outcome(fresh, {x(4), x(5), x(4)}));
  EXPECT_EQ(ranks.votes, fresh.votes);
  EXPECT_EQ(ranks.exchanges, fresh.exchanges);
}

TEST(FailureMode19, CountersThatDrift_DoNotMeet) {
  const RoundKey mine{.frame = "f", .round = 721};
  RoundKey theirs = mine;
  theirs.round = 720;
  EXPECT_FALSE(meet(mine, theirs));
  theirs = mine;
  theirs.kind = RoundKey::Kind::Settle;
  EXPECT_FALSE(meet(mine, theirs));
}

TEST(FailureMode25, RoundOfAnEarlierEpoch_IsNotJoined) {
  const RoundKey now{.epoch = 1, .frame = "f", .round = 0};
  RoundKey before = now;
  before.epoch = 0;
  EXPECT_FALSE(meet(now, before));
  EXPECT_TRUE(meet(now, now));
}

}  // namespace
}  // namespace lockstep::worker::failure_mode_test
