// Whatever fails on one rank reaches all ranks as the same error, leaves the frame as it was, and
// the next call works.
#include "virtual_ranks.h"
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <lockstep/worker/agree/agreement/rank_table.h>
#include <lockstep/worker/agree/exchange/rank_constant.h>

namespace lockstep::worker::failure_test {
namespace {

using shapes::Expr;
using shapes::Guard;
using shapes::Symbol;

Inputs tokens(std::int64_t size) { return Inputs().tensor("tokens", {size}); }

TraceReport plain(Rank, const Decision& decision) {
  TraceReport report;
  report.graph = decision.digest();
  return report;
}

/// Four ranks with one static entry, for tokens(5).
class Failure : public testing::Test {
 protected:
  Failure() : ranks(4) {
    ranks.joint(std::vector<Inputs>(4, tokens(5)));
    before = ranks.frame(0).state;
  }
  void expect_as_before() {
    for (int r = 0; r < ranks.size(); ++r) {
      EXPECT_EQ(ranks.frame(r).state, before);
      EXPECT_EQ(ranks.frame(r).entries.size(), 1U);
    }
    ranks.tracer = plain;
    ranks.compiler = [](Rank) { return std::nullopt; };
    ranks.rank_status = [](Rank) { return RankStatus{}; };
    ranks.transport = [](int) { return std::nullopt; };
    EXPECT_EQ(outcome_text(ranks.joint(std::vector<Inputs>(4, tokens(5)))), "reused 0");
    EXPECT_EQ(outcome_text(ranks.joint({tokens(5), tokens(6), tokens(7), tokens(5)})),
              "compiled 1");
  }
  Status error_of(const std::vector<Inputs>& inputs) {
    const CallOutcome outcome = ranks.joint(inputs);
    EXPECT_EQ(outcome.kind, CallOutcome::Kind::Error) << outcome_text(outcome);
    return outcome.error.value_or(Status{});
  }
  VirtualRanks ranks;
  FrameState before;
  const std::vector<Inputs> jagged{tokens(5), tokens(6), tokens(7), tokens(5)};
};

TEST_F(Failure, Trace_OnOneRank_IsJointWithItsCodeAndText) {
  ranks.tracer = [](Rank rank, const Decision& decision) {
    TraceReport report = plain(rank, decision);
    if (rank.value == 2) report.failure = Status{Code::TraceError, "index out of range", "", {}};
    return report;
  };
  const Status error = error_of(jagged);
  EXPECT_EQ(error.text(),
            "TRACE_ERROR: f: failed on rank 2: index out of range [ranks 0-1,3: traced; rank 2: "
            "index out of range]");
  expect_as_before();
}

TEST_F(Failure, Trace_OnTwoRanksDifferently_TheLowestIsTheCause) {
  ranks.tracer = [](Rank rank, const Decision& decision) {
    TraceReport report = plain(rank, decision);
    if (rank.value > 0)
      report.failure = Status{Code::TraceError, "no " + std::to_string(rank.value), "", {}};
    return report;
  };
  const Status error = error_of(jagged);
  EXPECT_EQ(error.message, "f: failed on rank 1: no 1");
  EXPECT_EQ(error.groups.size(), 4U);
  expect_as_before();
}

TEST_F(Failure, Guard_FalseOnSomeRanks_IsABranchDivergenceInSourceNames) {
  ranks.tracer = [](Rank rank, const Decision& decision) {
    TraceReport report = plain(rank, decision);
    const Expr size = Expr::symbol({false, 0});
    report.guards = {Guard{shapes::greater_equal(size, 2), {"train.cpp", 40}},
                     Guard{shapes::less(size, 7), {"train.cpp", 41}}};
    return report;
  };
  const Status error = error_of(jagged);
  EXPECT_EQ(error.code, Code::BranchDivergence);
  EXPECT_NE(error.message.find("train.cpp:41"), std::string::npos) << error.message;
  EXPECT_NE(error.message.find("tokens.size(0)"), std::string::npos) << error.message;
  EXPECT_NE(error.message.find("group_any"), std::string::npos);
  EXPECT_NE(error.message.find("same_collectives"), std::string::npos);
  ASSERT_EQ(error.groups.size(), 3U);
  EXPECT_EQ(error.groups[0], (RankValue{[] {
                                          RankSet set = RankSet::of({0});
                                          set.insert(RankSet::of({3}));
                                          return set;
                                        }(),
                                        "tokens.size(0) = 5: true"}));
  EXPECT_EQ(error.groups[2].value, "tokens.size(0) = 7: false");
  expect_as_before();
}

TEST_F(Failure, Guard_OfAnUnknownSymbol_IsAnErrorAndNoCrash) {
  ranks.tracer = [](Rank rank, const Decision& decision) {
    TraceReport report = plain(rank, decision);
    report.guards = {Guard{shapes::equal(Expr::symbol({true, 0}), 2), {"train.cpp", 40}}};
    return report;
  };
  EXPECT_EQ(error_of(jagged).code, Code::Internal);
  expect_as_before();
}

TEST_F(Failure, Graphs_DifferWithoutPrefixes_ListsTheFingerprints) {
  ranks.tracer = [](Rank rank, const Decision&) {
    TraceReport report;
    report.graph = {7, rank.value == 1 ? 1U : 0U};
    return report;
  };
  const Status error = error_of(jagged);
  EXPECT_EQ(error.code, Code::GraphDivergence);
  ASSERT_EQ(error.groups.size(), 2U);
  EXPECT_EQ(error.groups[1].ranks.text(), "1");
  EXPECT_EQ(error.groups[1].value, (shapes::Fingerprint{7, 1}.text()));
  expect_as_before();
}

/// Prefix fingerprints of a graph whose node i has the given letter.
TraceReport lettered(const std::string& nodes) {
  TraceReport report;
  for (std::size_t i = 1; i <= nodes.size(); ++i)
    report.prefixes.push_back(shapes::fingerprint(std::string_view(nodes).substr(0, i)));
  report.graph = shapes::fingerprint(nodes);
  return report;
}

TEST_F(Failure, Graphs_Differ_TheFirstDifferingNodeIsFoundAndExplained) {
  // Every position of the first difference, graphs of different lengths included.
  const std::string base = "abcdefghijk";
  for (std::size_t node = 0; node <= base.size(); ++node) {
    const std::string other = base.substr(0, node) + (node % 2 == 0 ? "XYZ" : "");
    if (other == base) continue;
    ranks.tracer = [&](Rank rank, const Decision&) {
      return lettered(rank.value == 3 ? other : base);
    };
    std::size_t asked = 99;
    ranks.explainer = [&](Rank rank, std::size_t at) {
      asked = at;
      const std::string& mine = rank.value == 3 ? other : base;
      return at < mine.size() ? mine.substr(at, 1) : std::string();
    };
    const Status error = error_of(jagged);
    EXPECT_EQ(error.code, Code::GraphDivergence);
    EXPECT_EQ(asked, node);
    ASSERT_EQ(error.groups.size(), 2U) << error.text();
    EXPECT_EQ(error.groups[1].ranks.text(), "3");
    EXPECT_EQ(error.groups[1].value, node < other.size() ? "X" : "(the graph ends here)");
  }
  expect_as_before();
}

/// A graph of ten nodes, the fourth with a constant.
TraceReport with_constant(int constant, const shapes::Fingerprint& skeleton) {
  TraceReport report;
  for (int node = 0; node < 10; ++node)
    report.prefixes.push_back(
        shapes::fingerprint(fmt::format("{} {}", node, node < 3 ? 0 : constant)));
  report.graph = report.prefixes.back();
  report.skeleton = skeleton;
  return report;
}

TEST_F(Failure, Graphs_DifferInARanksOwnNumber_SaysSoAndNamesIt) {
  const auto error_for = [&](auto constant, bool elsewhere) {
    ranks.tracer = [=](Rank rank, const Decision&) {
      return with_constant(constant(rank.value), {1, elsewhere && rank.value == 2 ? 3U : 2U});
    };
    ranks.explainer = [=](Rank rank, std::size_t node) {
      return fmt::format("%{}: f32[s0] = full({})   # train.cpp:41", node, constant(rank.value));
    };
    return error_of(jagged).message;
  };
  using testing::HasSubstr;
  const std::string own = error_for([](int rank) { return rank; }, false);
  EXPECT_THAT(own, HasSubstr("first at node %3"));
  EXPECT_THAT(own, HasSubstr("no majority"));
  EXPECT_THAT(own, HasSubstr("the only difference is a constant: 0 on rank 0, 1 on rank 1"));
  EXPECT_THAT(own, HasSubstr("which is the rank's number"));
  EXPECT_THAT(error_for([](int rank) { return 8 * rank - 2; }, false),
              HasSubstr("which is 8 * the rank's number - 2;"));
  EXPECT_THAT(error_for([](int rank) { return rank; }, true),
              HasSubstr("it differs in a constant: 0 on rank 0"));
  const std::string one = error_for([](int rank) { return rank == 1 ? 7 : 5; }, false);
  EXPECT_THAT(one, HasSubstr("ranks 0,2-3 are the majority"));
  EXPECT_THAT(one, HasSubstr("the only difference is a constant: 5 on ranks 0,2-3, 7 on rank 1;"));
  expect_as_before();
}

TEST(Diagnosis, RanksWithOtherNumbersOfBatches_AreToldOfMore) {
  const auto meeting = [](const std::string& frame, RoundKey::Kind kind) {
    RoundKey one, other;
    one.frame = "train";
    other.frame = frame;
    other.kind = kind;
    return diagnose(
        {{RankSet::of({0}), rank_report(one, {})}, {RankSet::of({1}), rank_report(other, {})}});
  };
  for (const Status& error :
       {meeting("evaluate", RoundKey::Kind::Call), meeting("", RoundKey::Kind::More),
        meeting("", RoundKey::Kind::Finish)}) {
    EXPECT_EQ(error.code, Code::FrameMismatch);
    EXPECT_NE(error.message.find("job.more(have_batch)"), std::string::npos) << error.message;
    EXPECT_NE(error.message.find("Consistency::Local"), std::string::npos) << error.message;
  }
  EXPECT_EQ(meeting("train", RoundKey::Kind::Commit).message.find("more("), std::string::npos);
}

TEST(Diagnosis, ARoundInsideARun_IsNamedByItsCall) {
  RoundKey key;
  key.frame = "v49";
  key.call = 24;
  key.kind = RoundKey::Kind::Settle;
  EXPECT_EQ(key.text(), "the end of call 24 of v49");
  key.frame.clear();
  EXPECT_EQ(key.text(), "settle");
}

// As after a call that the ranks made of different frames.
TEST(Diagnosis, RanksThatHaveCountedOtherCallsOfTheFrame_AreInOneRound) {
  RoundKey one, other;
  one.frame = other.frame = "f";
  one.round = other.round = 5;
  one.call = 2, other.call = 3;
  const auto met = [&] {
    return diagnose({{RankSet::of({0}), rank_report(one, {.pending = 1})},
                     {RankSet::of({1}), rank_report(other, {.pending = 2})}});
  };
  EXPECT_EQ(met().code, Code::GraphDivergence) << met().text();
  EXPECT_NE(met().message.find("into call 2 of f"), std::string::npos) << met().text();
  other.round = 6;
  EXPECT_EQ(met().code, Code::FrameMismatch) << met().text();
  ASSERT_EQ(met().groups.size(), 2U);
  EXPECT_EQ(met().groups[0].value, "call 2 of f");
  EXPECT_EQ(met().groups[1].value, "call 3 of f");
}

TEST(Diagnosis, RanksInDifferentRoundsOfAnyKind_AreToldSoByWhatDiffers) {
  for (int kind = 0; kind <= static_cast<int>(RoundKey::Kind::Load); ++kind)
    for (const char* frame : {"", "f"}) {
      RoundKey one;
      one.kind = static_cast<RoundKey::Kind>(kind);
      one.frame = frame;
      one.group = "experts";
      one.round = one.call = 5;
      if (one.kind == RoundKey::Kind::Resync)
        continue;  // takes in ranks that have counted otherwise
      RoundKey other = one;
      other.round = other.call = 16;
      const Status met = diagnose(
          {{RankSet::of({0}), rank_report(one, {})}, {RankSet::of({1}), rank_report(other, {})}});
      EXPECT_EQ(met.code, Code::FrameMismatch) << one.text() << ": " << met.text();
      ASSERT_EQ(met.groups.size(), 2U) << met.text();
      EXPECT_NE(met.groups[0].value.find("5"), std::string::npos) << met.text();
      EXPECT_NE(met.groups[1].value.find("16"), std::string::npos) << met.text();
    }
}

TEST(Diagnosis, RoundsWithoutACall_HaveNoNumberWhereAnotherWordTellsThem) {
  RoundKey settle, more;
  settle.kind = RoundKey::Kind::Settle, more.kind = RoundKey::Kind::More;
  settle.round = settle.call = more.round = more.call = 5;
  settle.pending_call = "call 3 of f", settle.pending_round = 4;
  const Status met = diagnose(
      {{RankSet::of({0}), rank_report(settle, {})}, {RankSet::of({1}), rank_report(more, {})}});
  ASSERT_EQ(met.groups.size(), 2U) << met.text();
  EXPECT_EQ(met.groups[0].value, "settle, before the prefetched call 3 of f");
  EXPECT_EQ(met.groups[1].value, "more");
}

TEST(Diagnosis, WhatAllRanksSay_IsSaidOnce) {
  const Status same{Code::TraceError, "f: failed on ranks 0-1: no", {}, {{RankSet::all(2), "no"}}};
  EXPECT_EQ(same.text(), "TRACE_ERROR: f: failed on ranks 0-1: no");
  const Status other{Code::TraceError, "f: failed on rank 0: no", {}, {{RankSet::all(2), "yes"}}};
  EXPECT_EQ(other.text(), "TRACE_ERROR: f: failed on rank 0: no [ranks 0-1: yes]");
}

TEST(RankConstant, Texts_DifferInOneNumberOnly_AreTold) {
  const auto of = [](const std::vector<std::string>& texts) {
    std::vector<RankValue> rank_table;
    for (std::size_t i = 0; i < texts.size(); ++i)
      rank_table.push_back({RankSet::of(Rank{static_cast<std::int32_t>(i)}), texts[i]});
    return rank_constant(rank_table);
  };
  EXPECT_EQ(of({"slice(%1, [0])", "slice(%1, [4])"})->law, "4 * the rank's number");
  EXPECT_EQ(of({"full(3)", "full(5)"})->law, "") << "two ranks bear out no line";
  EXPECT_EQ(of({"full(-1.5)", "full(-1)", "full(-0.5)"})->law, "0.5 * the rank's number - 1.5");
  EXPECT_FALSE(of({"%1 = add(s0)", "%1 = add(s1)"})) << "a name is no number";
  EXPECT_FALSE(of({"full(1, 2)", "full(2, 3)"}));
  EXPECT_FALSE(of({"full(1)", "iota(1)"}));
  EXPECT_FALSE(of({"full(1)", "full(1), 2"}));
  EXPECT_EQ(without_numbers("%3: f32[2*s0 + 1] = full(-0.5)"), "%3: f32[#*s0 + #] = full(#)");
}

TEST_F(Failure, Graphs_WithEqualNodesAndOtherGuards_ListsTheGuards) {
  ranks.tracer = [](Rank rank, const Decision&) {
    TraceReport report = lettered("abc");
    if (rank.value == 2) {
      report.graph = {1, 2};
      report.guards = {Guard{shapes::less(Expr::symbol({false, 0}), 100), {"train.cpp", 9}}};
    }
    return report;
  };
  const Status error = error_of(jagged);
  EXPECT_EQ(error.code, Code::GraphDivergence);
  ASSERT_EQ(error.groups.size(), 2U);
  EXPECT_NE(error.groups[1].value.find("train.cpp:9"), std::string::npos) << error.text();
  expect_as_before();
}

TEST_F(Failure, Compile_OnOneRank_IsAJointCompileError) {
  ranks.compiler = [](Rank rank) {
    return rank.value == 1 ? std::optional(Status{Code::Environment, "disk full", "", {}})
                           : std::nullopt;
  };
  EXPECT_EQ(error_of(jagged).text(),
            "ENVIRONMENT: f: failed on rank 1: disk full [ranks 0,2-3: compiled; rank 1: disk "
            "full]");
  expect_as_before();
}

TEST_F(Failure, Transport_AtEveryStep_LeavesTheFrameAsItWas) {
  for (int at = 0; at < 6; ++at) {
    ranks.transport = [at](int step) {
      return step == at ? std::optional(Status{Code::RankLost, "rank 3 is gone", "", {}})
                        : std::nullopt;
    };
    EXPECT_EQ(error_of(jagged).code, Code::RankLost) << "step " << at;
  }
  expect_as_before();
}

TEST_F(Failure, Trouble_BeforeTheCall_StopsItOnEveryRank_ThoughAllEntriesFit) {
  ranks.rank_status = [](Rank rank) {
    RankStatus rank_status;
    if (rank.value == 3)
      rank_status.local_error =
          Status{Code::RuntimeAssert, "counts must be positive", "counts", {}};
    return rank_status;
  };
  const Status error = error_of(std::vector<Inputs>(4, tokens(5)));
  EXPECT_EQ(error.text(),
            "RUNTIME_ASSERT: rank 3 failed before call 1 of f: counts must be positive [ranks 0-2: "
            "call 1 of f; rank 3: counts must be positive]");
  EXPECT_EQ(error.source, "counts");
  expect_as_before();
}

TEST_F(Failure, Trouble_AtAnEarlierNodeOfAHigherRank_IsTheCause) {
  ranks.rank_status = [](Rank rank) {
    RankStatus rank_status;
    if (rank.value == 0)
      rank_status.local_error = Status{Code::RuntimeAssert, "zeros came", "", {}};
    if (rank.value == 0) rank_status.local_error_at = 9;
    if (rank.value >= 2) rank_status.local_error = Status{Code::RuntimeAssert, "index 7", "", {}};
    if (rank.value >= 2) rank_status.local_error_at = 4;
    return rank_status;
  };
  const Status error = error_of(std::vector<Inputs>(4, tokens(5)));
  EXPECT_NE(error.message.find("ranks 2-3 failed"), std::string::npos) << error.text();
  EXPECT_NE(error.message.find("index 7"), std::string::npos) << error.text();
  EXPECT_EQ(error.groups.size(), 3U);
  expect_as_before();
}

TEST_F(Failure, Pending_DiffersBetweenRanks_IsAnError) {
  ranks.rank_status = [](Rank rank) {
    RankStatus rank_status;
    rank_status.pending = rank.value == 2 ? 1U : 0U;
    return rank_status;
  };
  EXPECT_EQ(error_of(std::vector<Inputs>(4, tokens(5))).code, Code::GraphDivergence);
  expect_as_before();
}

TEST_F(Failure, EntriesDiffer_IsAnErrorAndNotARun) {
  ranks.frame(1) = CodeCache("f");
  EXPECT_EQ(error_of(std::vector<Inputs>(4, tokens(5))).code, Code::GraphDivergence);
  for (int r = 0; r < 4; ++r) ranks.frame(r) = CodeCache("f");
  EXPECT_EQ(outcome_text(ranks.joint(std::vector<Inputs>(4, tokens(5)))), "compiled 0");
}

TEST_F(Failure, EntriesDiffer_ThoughBothFit_IsAnErrorAndNotARun) {
  VirtualRanks others(4);
  others.joint(std::vector<Inputs>(4, tokens(5).mark("tokens", 0, Mark::Dynamic)));
  ranks.frame(1) = others.frame(1);
  EXPECT_EQ(error_of(std::vector<Inputs>(4, tokens(5))).code, Code::GraphDivergence);
}

TEST(TraceFailure, ThatMeetsPeersInAnotherRound_IsTheErrorAndNotTheMeeting) {
  CodeCache frame("f");
  const DecisionConfig config;
  RoundKey key;
  key.frame = "f";
  CallMachine machine(Rank{0}, 2, config, key, frame, tokens(5).build());
  machine.voted(std::get<action::Vote>(machine.next()).mine);
  machine.joined(std::get<action::TreeJoin>(machine.next()).mine);
  TraceReport report;
  report.failure = Status{Code::TraceError, "index out of range", "", {}};
  machine.traced(std::move(report));
  // The peer is still inside its trace, in a vote with a key of its own.
  key.attempt = 1;
  const auto mine = std::get<action::Vote>(machine.next()).mine;
  auto both = collectives::Vote::of(0, key.hash(), 0, 0);
  for (std::size_t i = 0; i < both.words.size(); ++i) both.words[i] &= mine.words[i];
  machine.voted(both);
  const auto& rank_table = std::get<action::TreeJoin>(machine.next());
  const auto theirs = rank_table_payload(Rank{1}, rank_report(key, {}));
  machine.joined(rank_table.join(rank_table.mine, theirs));
  const auto& outcome = std::get<action::Finish>(machine.next()).outcome;
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->code, Code::TraceError);
  EXPECT_NE(outcome.error->message.find("rank 0 failed"), std::string::npos);
  EXPECT_NE(outcome.error->message.find("index out of range"), std::string::npos);
}

TEST(Guards, SplitEntries_WithEqualDecisions_DoNotSupersedeEachOther) {
  VirtualRanks ranks(2);
  ranks.tracer = [](Rank, const Decision& decision) {
    TraceReport report = plain({}, decision);
    if (decision.symbols.empty()) return report;
    const auto small = shapes::less(Expr::symbol({false, 0}), 8);
    report.guards = {Guard{decision.symbols[0].hint < 8 ? small : small.negated(), {"t.cpp", 1}}};
    return report;
  };
  const auto same = [](std::int64_t size) {
    return std::vector<Inputs>(2, tokens(size).mark("tokens", 0, Mark::Dynamic));
  };
  EXPECT_EQ(outcome_text(ranks.joint(same(4))), "compiled 0");
  EXPECT_EQ(outcome_text(ranks.joint(same(9))), "compiled 1");
  EXPECT_EQ(outcome_text(ranks.joint(same(5))), "reused 0");
  EXPECT_EQ(outcome_text(ranks.joint(same(8))), "reused 1");
}

}  // namespace
}  // namespace lockstep::worker::failure_test
