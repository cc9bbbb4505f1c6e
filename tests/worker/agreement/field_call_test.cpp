// Fields of users in calls (worker/agree/exchange/rules.md, "Fields"): errors with their tables,
// which entry serves, what is superseded.
#include <array>

#include "virtual_ranks.h"
#include <gtest/gtest.h>

#include <lockstep/collectives/simulated/fake.h>
#include <lockstep/worker/agreement.h>

namespace lockstep::worker::field_call_test {
namespace {

Inputs with(std::int64_t value, FieldJoin join = FieldJoin::Max, const char* name = "f") {
  return Inputs().tensor("x", {4}).field(name, value, join);
}

std::string table(const CallOutcome& outcome) {
  if (!outcome.error) return outcome_text(outcome);
  std::string out(code_name(outcome.error->code));
  out += " " + outcome.error->source + ":";
  for (const RankValue& group : outcome.error->groups)
    out += " " + group.ranks.text() + "=" + group.value;
  return out;
}

std::string newest(VirtualRanks& ranks, int rank = 0) {
  const std::string text = decision_text(ranks.frame(rank).entries.back().decision);
  return text.substr(text.find("| ") + 2);
}

TEST(FieldCall, EveryRank_HasTheJoinedValue_BeforeItTraces) {
  VirtualRanks ranks(3);
  std::vector<std::string> seen;
  ranks.tracer = [&](Rank, const Decision& decision) {
    seen.push_back(joined_text(*decision.field("f")));
    return TraceReport{};
  };
  EXPECT_EQ(outcome_text(ranks.joint({with(5), with(9), with(7)})), "compiled 0");
  EXPECT_EQ(seen, (std::vector<std::string>(3, "max 9")));
  for (int r = 0; r < 3; ++r) EXPECT_EQ(newest(ranks, r), "f = max 9");
}

TEST(FieldCall, AFieldOfSomeRanks_IsASourceMismatch_AlsoWhereSourcesMayDiffer) {
  for (const Consistency consistency :
       {Consistency::SameGraph, Consistency::SameCollectives, Consistency::SharedSizes}) {
    VirtualRanks ranks(3, {.consistency = consistency});
    const Inputs without = Inputs().tensor("x", {4});
    EXPECT_EQ(table(ranks.joint({with(1), without, with(1)})),
              "SOURCE_MISMATCH f: 0,2=present 1=absent");
    EXPECT_EQ(table(ranks.joint({without, with(1), without})),
              "SOURCE_MISMATCH f: 0,2=absent 1=present");
    EXPECT_EQ(table(ranks.joint({with(1), with(1), with(1)})), "compiled 0") << "the next works";
    EXPECT_EQ(table(ranks.joint({with(1), without, with(1)})),
              "SOURCE_MISMATCH f: 0,2=present 1=absent")
        << "also where the entry fits those who have it";
    EXPECT_EQ(table(ranks.joint({without, without, without})), "compiled 1");
    EXPECT_EQ(table(ranks.joint({with(1), without, with(1)})),
              "SOURCE_MISMATCH f: 0,2=present 1=absent")
        << "an entry fits each of them, but not the same one";
  }
}

TEST(FieldCall, AnotherTypeOrJoin_IsAKindMismatch) {
  for (const Consistency consistency : {Consistency::SameGraph, Consistency::SharedSizes}) {
    VirtualRanks ranks(3, {.consistency = consistency});
    EXPECT_EQ(table(ranks.joint({with(1), with(1, FieldJoin::Min), with(1)})),
              "KIND_MISMATCH f: 0,2=int, max 1=int, min");
    const Inputs text = Inputs().tensor("x", {4}).field("f", "1", FieldJoin::Max);
    EXPECT_EQ(table(ranks.joint({with(1), with(1), text})),
              "KIND_MISMATCH f: 0-1=int, max 2=string, max");
  }
}

TEST(FieldCall, EqualThatDiffers_IsAConstantMismatch_WithTheValues) {
  VirtualRanks ranks(3);
  EXPECT_EQ(table(ranks.joint(
                {with(1, FieldJoin::Equal), with(2, FieldJoin::Equal), with(1, FieldJoin::Equal)})),
            "CONSTANT_MISMATCH f: 0,2=1 1=2");
  EXPECT_EQ(table(ranks.joint(
                {with(1, FieldJoin::Equal), with(1, FieldJoin::Equal), with(1, FieldJoin::Equal)})),
            "compiled 0");
  EXPECT_EQ(table(ranks.joint(
                {with(1, FieldJoin::Equal), with(2, FieldJoin::Equal), with(1, FieldJoin::Equal)})),
            "CONSTANT_MISMATCH f: 0,2=1 1=2");
}

TEST(FieldCall, Errors_ComeCodeByCode_SourcesBeforeFields) {
  VirtualRanks ranks(2);
  const auto in = [](bool flag, const char* own) {
    return Inputs()
        .boolean("b", flag)
        .field("a", flag, FieldJoin::Equal)
        .field(own, 1, FieldJoin::Max);
  };
  EXPECT_EQ(table(ranks.joint({in(true, "y"), in(false, "z")})),
            "SOURCE_MISMATCH y: 0=present 1=absent");
  EXPECT_EQ(table(ranks.joint({in(true, "z"), in(false, "z")})),
            "CONSTANT_MISMATCH b: 0=true 1=false");
}

TEST(FieldCall, AUnionAboveTheLimit_IsBadInputOnAllRanks) {
  constexpr int kSize = 65;
  VirtualRanks ranks(kSize);
  std::vector<Inputs> inputs;
  for (int r = 0; r < kSize; ++r) {
    std::string value(1024, 'x');
    value[0] = static_cast<char>(r);
    inputs.push_back(Inputs().tensor("x", {4}).field("f", value, FieldJoin::Union));
  }
  EXPECT_EQ(table(ranks.joint(inputs)), "BAD_INPUT f: 0-64=1024 bytes");
}

TEST(FieldCall, AFieldThatIsTooLong_OnOneRank_IsTheErrorOfAll) {
  VirtualRanks ranks(3);
  const auto of = [](std::size_t length) {
    return Inputs().tensor("x", {4}).field("f", std::string(length, 'x'), FieldJoin::Max);
  };
  EXPECT_EQ(table(ranks.joint({of(1024), of(1024), of(0)})), "compiled 0");
  const CallOutcome outcome = ranks.joint({of(1), of(1025), of(1)});
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->code, Code::BadInput);
  EXPECT_EQ(outcome.error->source, "f");
  EXPECT_NE(outcome.error->message.find("1025"), std::string::npos) << outcome.error->message;
}

/// A call of two ranks.
std::string call(VirtualRanks& ranks, FieldJoin join, std::int64_t a, std::int64_t b) {
  return outcome_text(ranks.joint({with(a, join), with(b, join)}));
}

TEST(FieldCall, AnEntryForAMax_ServesLess_AndIsSupersededByOneForMore) {
  VirtualRanks ranks(2);
  EXPECT_EQ(call(ranks, FieldJoin::Max, 3, 5), "compiled 0");
  EXPECT_EQ(call(ranks, FieldJoin::Max, 5, 1), "reused 0");
  EXPECT_EQ(ranks.votes, 1) << "a hit is one vote";
  EXPECT_EQ(ranks.exchanges, 0);
  EXPECT_EQ(call(ranks, FieldJoin::Max, 5, 6), "compiled 1");
  EXPECT_TRUE(ranks.frame(0).entries[0].superseded);
  EXPECT_EQ(call(ranks, FieldJoin::Max, 0, 0), "reused 1");
}

TEST(FieldCall, AnEntryForAMin_ServesMore_AndIsSupersededByOneForLess) {
  VirtualRanks ranks(2);
  EXPECT_EQ(call(ranks, FieldJoin::Min, 3, 5), "compiled 0");
  EXPECT_EQ(newest(ranks), "f = min 3");
  EXPECT_EQ(call(ranks, FieldJoin::Min, 8, 9), "reused 0");
  EXPECT_EQ(call(ranks, FieldJoin::Min, 8, 2), "compiled 1");
  EXPECT_TRUE(ranks.frame(0).entries[0].superseded);
}

TEST(FieldCall, AnEntryForAUnion_ServesItsMembers_OnlyASupersetSupersedes) {
  VirtualRanks ranks(2);
  EXPECT_EQ(call(ranks, FieldJoin::Union, 3, 5), "compiled 0");
  EXPECT_EQ(newest(ranks), "f = union 3, 5");
  EXPECT_EQ(call(ranks, FieldJoin::Union, 5, 5), "reused 0");
  EXPECT_EQ(call(ranks, FieldJoin::Union, 7, 3), "compiled 1");
  EXPECT_FALSE(ranks.frame(0).entries[0].superseded);
  EXPECT_EQ(call(ranks, FieldJoin::Union, 3, 3), "reused 0") << "the lowest index";
  EXPECT_EQ(call(ranks, FieldJoin::Union, 5, 7), "compiled 2") << "no entry has both";
  EXPECT_EQ(call(ranks, FieldJoin::Union, 7, 7), "reused 1");
}

TEST(FieldCall, AnEntryForAnEqualField_ServesThatValueOnly) {
  VirtualRanks ranks(2);
  EXPECT_EQ(call(ranks, FieldJoin::Equal, 3, 3), "compiled 0");
  EXPECT_EQ(call(ranks, FieldJoin::Equal, 4, 4), "compiled 1");
  EXPECT_FALSE(ranks.frame(0).entries[0].superseded);
  EXPECT_EQ(call(ranks, FieldJoin::Equal, 3, 3), "reused 0");
}

TEST(FieldCall, FieldsAreNoPartOfTheState_AndNameWhatDoesNotFit) {
  VirtualRanks ranks(1);
  ranks.joint({with(3)});
  EXPECT_EQ(ranks.frame(0).state.size(), 1U);
  EXPECT_EQ(ranks.frame(0).state.count("f"), 0U);
  const auto why = [&](const Inputs& in) {
    return ranks.frame(0).explain(in.build()).at(0).reason;
  };
  EXPECT_EQ(why(with(4)), "f is 4, the entry has max 3");
  EXPECT_EQ(why(with(3, FieldJoin::Min)), "field f is int, min, in the entry it is int, max");
  EXPECT_EQ(why(with(3, FieldJoin::Max, "g")), "the entry has no field g");
  EXPECT_EQ(why(Inputs().tensor("x", {4})), "field f of the entry is missing");
}

TEST(FieldCall, Settle_CountsEntriesOfTheSameFields_OfEqualOnesWithTheSameValue) {
  VirtualRanks ranks(1, {.recompile_limit = 4});
  ranks.joint({with(3, FieldJoin::Equal)});
  ranks.joint({with(4, FieldJoin::Equal)});
  EXPECT_TRUE(ranks.frame(0).entries[1].decision.symbols.empty()) << "as another bool";
  VirtualRanks other(2, {.recompile_limit = 4});
  other.joint({with(3, FieldJoin::Union), with(4, FieldJoin::Union)});
  other.joint({with(4, FieldJoin::Union), with(5, FieldJoin::Union)});
  for (int r = 0; r < 2; ++r)
    EXPECT_EQ(other.frame(r).entries[1].decision.symbols.size(), 1U) << "the second of four";
}

TEST(FieldCall, APrefetchedCall_IsHeldToItsFields) {
  const auto group = collectives::fake_communicator({0}, 2);
  Agreement agreement(**group, "world", {});
  const Agreement::Build build = [](int, const Decision& decision) -> Result<Built> {
    return Built{decision.digest(), {}};
  };
  ASSERT_TRUE(agreement.agree("f", with(3).build(), build));
  agreement.prefetch("f", with(2).build());
  EXPECT_TRUE(agreement.agree("f", with(2).build(), build));
  agreement.prefetch("f", with(2).build());
  const auto broken = agreement.agree("f", with(3).build(), build);
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code, Code::BadInput);
  EXPECT_NE(broken.error().message.find("f: max 2, but is called with max 3"), std::string::npos)
      << broken.error().message;
}

}  // namespace
}  // namespace lockstep::worker::field_call_test
