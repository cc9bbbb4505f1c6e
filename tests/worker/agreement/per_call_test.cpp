// The rules of worker/agree/exchange/rules.md, "Per call", one test each.
#include "virtual_ranks.h"
#include <gtest/gtest.h>

namespace lockstep::worker::per_call_test {
namespace {

using OutcomeKind = CallOutcome::Kind;

Inputs tokens(std::vector<std::int64_t> sizes) { return Inputs().tensor("x", std::move(sizes)); }

/// The reported decision of the newest entry, as text.
std::string newest(VirtualRanks& ranks) {
  return decision_text(ranks.frame(0).entries.back().reported);
}

void expect_error(const CallOutcome& outcome, Code code, const std::string& source,
                  const std::string& table) {
  ASSERT_EQ(outcome.kind, OutcomeKind::Error) << outcome_text(outcome);
  EXPECT_EQ(outcome.error->code, code);
  EXPECT_EQ(outcome.error->source, source);
  std::string text;
  for (const RankValue& v : outcome.error->groups) text += v.ranks.text() + ":" + v.value + " ";
  EXPECT_EQ(text, table);
  EXPECT_FALSE(outcome.error->message.empty());
}

TEST(PerCall, FirstCall_CompilesStatic_AndReusesWithOneVote) {
  VirtualRanks ranks(4);
  const std::vector<Inputs> same(
      4, Inputs().tensor("x", {5, 10}).integer("n", 3).real("lr").boolean("train", true));
  EXPECT_EQ(outcome_text(ranks.joint(same)), "compiled 0");
  EXPECT_EQ(newest(ranks), "lr: float; n: int 3; train: bool true; x: f32[5, 10]");
  EXPECT_EQ(outcome_text(ranks.joint(same)), "reused 0");
  EXPECT_EQ(ranks.votes, 1);
  EXPECT_EQ(ranks.exchanges + ranks.broadcasts, 0);
}

TEST(PerCall, SourceMissing_IsAnErrorWithPresentAndAbsent) {
  VirtualRanks ranks(4);
  std::vector<Inputs> inputs(4, tokens({5}));
  inputs[1].integer("n", 3);
  inputs[3].integer("n", 4);
  expect_error(ranks.joint(inputs), Code::SourceMismatch, "n", "0,2:absent 1,3:present ");
}

TEST(PerCall, KindsDiffer_IsAnErrorByKind) {
  VirtualRanks ranks(3);
  expect_error(ranks.joint({tokens({5}), Inputs().integer("x", 5), Inputs().real("x")}),
               Code::KindMismatch, "x", "0:tensor 1:int 2:float ");
}

TEST(PerCall, DtypesDiffer_IsAnErrorByDtype) {
  VirtualRanks ranks(3);
  expect_error(ranks.joint({tokens({5}), Inputs().tensor("x", {5}, DType::I64), tokens({5})}),
               Code::DtypeMismatch, "x", "0,2:f32 1:i64 ");
}

TEST(PerCall, NdimsDiffer_IsAnErrorByNdim) {
  VirtualRanks ranks(3);
  expect_error(ranks.joint({tokens({5}), tokens({5, 2}), tokens({})}), Code::NdimMismatch, "x",
               "0:1 1:2 2:0 ");
}

TEST(PerCall, BoolsDiffer_IsAConstantMismatch) {
  VirtualRanks ranks(2);
  expect_error(ranks.joint({Inputs().boolean("b", true), Inputs().boolean("b", false)}),
               Code::ConstantMismatch, "b", "0:true 1:false ");
}

TEST(PerCall, StaticAgainstDynamicMark_IsAMarkConflict) {
  VirtualRanks ranks(4);
  std::vector<Inputs> inputs(4, tokens({5, 10}));
  inputs[0].mark("x", 1, Mark::Unbacked);
  inputs[2].mark("x", 1, Mark::Static);
  expect_error(ranks.joint(inputs), Code::MarkConflict, "x.size(1)", "0:unbacked 1,3: 2:static ");
}

TEST(PerCall, StaticMarkWithDifferentSizes_IsAConstraintViolation) {
  VirtualRanks ranks(4);
  std::vector<Inputs> inputs{tokens({5}), tokens({6}), tokens({5}), tokens({7})};
  inputs[1].mark("x", 0, Mark::Static);
  expect_error(ranks.joint(inputs), Code::ConstraintViolation, "x.size(0)", "0,2:5 1:6 3:7 ");
}

TEST(PerCall, StaticAgainstMaybeDynamic_NoConflict_AndTheDimIsStatic) {
  VirtualRanks ranks(2);
  std::vector<Inputs> inputs{tokens({5}).mark("x", 0, Mark::Static),
                             tokens({5}).mark("x", 0, Mark::MaybeDynamic)};
  EXPECT_EQ(outcome_text(ranks.joint(inputs)), "compiled 0");
  EXPECT_EQ(newest(ranks), "x: f32[5]");
}

TEST(PerCall, SeveralErrors_TheFirstCodeWinsOverTheFirstSource) {
  VirtualRanks ranks(2);
  std::vector<Inputs> inputs{Inputs().tensor("a", {1}).boolean("b", true).tensor("z", {2}),
                             Inputs().tensor("a", {1, 1}).boolean("b", false).integer("z", 2)};
  expect_error(ranks.joint(inputs), Code::KindMismatch, "z", "0:tensor 1:int ");
}

TEST(PerCall, SeveralErrorsOfOneCode_TheFirstSourceInByteOrderWins) {
  VirtualRanks ranks(2);
  std::vector<Inputs> inputs{
      Inputs().tensor("\xc3\xa9", {1}).tensor("z", {1}).tensor("Z", {1}),
      Inputs().tensor("\xc3\xa9", {1, 1}).tensor("z", {1, 1}).tensor("Z", {1, 1})};
  expect_error(ranks.joint(inputs), Code::NdimMismatch, "Z", "0:1 1:2 ");
}

TEST(PerCall, AfterAnError_StateAndEntriesAreAsBefore) {
  VirtualRanks ranks(2);
  ranks.joint({tokens({5}), tokens({5})});
  const FrameState before = ranks.frame(0).state;
  EXPECT_EQ(ranks.joint({tokens({7}), tokens({5, 5})}).kind, OutcomeKind::Error);
  EXPECT_EQ(ranks.frame(0).state, before);
  EXPECT_EQ(ranks.frame(1).state, before);
  EXPECT_EQ(outcome_text(ranks.joint({tokens({5}), tokens({5})})), "reused 0");
}

TEST(PerCall, FramesDiffer_IsAFrameMismatchAndTheNextCallWorks) {
  VirtualRanks ranks(3);
  const std::vector<Inputs> inputs(3, tokens({5}));
  const auto all = ranks.call({"a", "b", "a"}, inputs);
  for (const CallOutcome& outcome : all) {
    expect_error(outcome, Code::FrameMismatch, "", "0,2:a 1:b ");
    EXPECT_EQ(outcome.error, all[0].error);
  }
  EXPECT_EQ(ranks.votes, 1);
  EXPECT_EQ(outcome_text(ranks.joint(inputs)), "compiled 0");
}

TEST(PerCall, SizesDifferBetweenRanks_DynamicAtTheFirstCall) {
  VirtualRanks ranks(4);
  EXPECT_EQ(outcome_text(
                ranks.joint({tokens({5, 10}), tokens({5, 10}), tokens({6, 10}), tokens({5, 10})})),
            "compiled 0");
  EXPECT_EQ(newest(ranks), "x: f32[s0, 10] | s0 = x.size(0) min 2 hint 5");
  EXPECT_EQ(ranks.votes, 3);
  EXPECT_EQ(ranks.exchanges, 1);
  EXPECT_EQ(ranks.broadcasts, 0);
}

TEST(PerCall, SizesDifferBetweenCalls_DynamicAtTheSecond) {
  VirtualRanks ranks(2);
  ranks.joint({tokens({5, 10}), tokens({5, 10})});
  EXPECT_EQ(outcome_text(ranks.joint({tokens({6, 10}), tokens({6, 10})})), "compiled 1");
  EXPECT_EQ(newest(ranks), "x: f32[s0, 10] | s0 = x.size(0) min 2 hint 6");
  EXPECT_EQ(outcome_text(ranks.joint({tokens({5, 10}), tokens({5, 10})})), "reused 0")
      << "the entry with fewer symbols is preferred";
  EXPECT_EQ(outcome_text(ranks.joint({tokens({9, 10}), tokens({2, 10})})), "reused 1");
}

TEST(PerCall, EqualDims_DoNotShareASymbol_NoDuckSizing) {
  VirtualRanks ranks(1);
  ranks.joint({tokens({5, 5})});
  ranks.joint({tokens({6, 6})});
  EXPECT_EQ(newest(ranks),
            "x: f32[s0, s1] | s0 = x.size(0) min 2 hint 6, s1 = x.size(1) min 2 hint 6");
}

TEST(PerCall, SizeOneOrZero_LowersAllBoundsAndSupersedes_AndTheFrameSettles) {
  VirtualRanks ranks(2);
  ranks.joint({tokens({5, 8}), tokens({6, 9})});
  EXPECT_EQ(outcome_text(ranks.joint({tokens({1, 8}), tokens({6, 8})})), "compiled 1");
  EXPECT_EQ(newest(ranks),
            "x: f32[s0, s1] | s0 = x.size(0) min 0 hint 6, s1 = x.size(1) min 0 hint 8");
  EXPECT_TRUE(ranks.frame(0).entries[0].superseded);
  EXPECT_EQ(ranks.frame(1).live(), 1);
  EXPECT_EQ(outcome_text(ranks.joint({tokens({5, 8}), tokens({6, 9})})), "reused 1");
  EXPECT_EQ(outcome_text(ranks.joint({tokens({0, 0}), tokens({1, 1})})), "reused 1");
}

TEST(PerCall, WithoutAssumeAtLeastTwo_TheBoundIsZero) {
  VirtualRanks ranks(2, {.assume_at_least_two = false});
  ranks.joint({tokens({5}), tokens({6})});
  EXPECT_EQ(newest(ranks), "x: f32[s0] | s0 = x.size(0) min 0 hint 5");
}

TEST(PerCall, StaticZeroAndOne_AreSizesLikeOthers_NotSpecialised) {
  VirtualRanks ranks(2);
  ranks.joint({tokens({1}), tokens({0})});
  EXPECT_EQ(newest(ranks), "x: f32[s0] | s0 = x.size(0) min 0 hint 1");
}

TEST(PerCall, SmallestSizeOfAStaticPast_CountsForTheBound_ThoughNoEntryHasIt) {
  VirtualRanks ranks(1);
  ranks.joint({tokens({1})});
  ranks.joint({tokens({4})});
  EXPECT_EQ(newest(ranks), "x: f32[s0] | s0 = x.size(0) min 0 hint 4");
}

TEST(PerCall, Ints_AreStaticThenUnboundedSymbols) {
  VirtualRanks ranks(2);
  const auto n = [](std::int64_t v) { return Inputs().integer("n", v); };
  ranks.joint({n(3), n(3)});
  EXPECT_EQ(newest(ranks), "n: int 3");
  ranks.joint({n(4), n(-4)});
  EXPECT_EQ(newest(ranks), "n: int s0 | s0 = n hint 4");
  EXPECT_EQ(outcome_text(ranks.joint({n(-9), n(0)})), "reused 1");
}

TEST(PerCall, Bools_AreConstants_OneEntryEach) {
  VirtualRanks ranks(2);
  const auto b = [](bool v) { return Inputs().boolean("b", v); };
  EXPECT_EQ(outcome_text(ranks.joint({b(true), b(true)})), "compiled 0");
  EXPECT_EQ(outcome_text(ranks.joint({b(false), b(false)})), "compiled 1");
  EXPECT_EQ(outcome_text(ranks.joint({b(true), b(true)})), "reused 0");
}

TEST(PerCall, DynamicMark_OnOneRankOnly_MakesASymbolForAll) {
  VirtualRanks ranks(3);
  EXPECT_EQ(outcome_text(ranks.joint(
                {tokens({5, 4}), tokens({5, 4}), tokens({5, 4}).mark("x", 1, Mark::Dynamic)})),
            "compiled 0");
  EXPECT_EQ(newest(ranks), "x: f32[5, s0] | s0 = x.size(1) pinned min 2 hint 4");
  EXPECT_EQ(ranks.frame(0).state.at("x").size.dims[1], shapes::Seen::constant(4))
      << "marks never enter the state";
}

TEST(PerCall, UnbackedMark_HasBoundZeroAndDoesNotLowerOthers_EvenAtSizeOne) {
  VirtualRanks ranks(2);
  ranks.joint({tokens({1, 4}).mark("x", 0, Mark::Unbacked), tokens({1, 5})});
  EXPECT_EQ(newest(ranks),
            "x: f32[s0, s1] | s0 = x.size(0) unbacked min 0 hint 1, s1 = x.size(1) min 2 hint 4");
}

TEST(PerCall, MaybeDynamicMark_MakesASymbol) {
  VirtualRanks ranks(2);
  ranks.joint({tokens({5}), tokens({5}).mark("x", 0, Mark::MaybeDynamic)});
  EXPECT_EQ(newest(ranks), "x: f32[s0] | s0 = x.size(0) min 2 hint 5");
}

TEST(PerCall, StaticMark_BeatsAutomaticDynamic_WithThisCallsSize) {
  VirtualRanks ranks(2);
  ranks.joint({tokens({5}), tokens({6})});
  EXPECT_EQ(outcome_text(ranks.joint({tokens({7}).mark("x", 0, Mark::Static), tokens({7})})),
            "compiled 1");
  EXPECT_EQ(newest(ranks), "x: f32[7]");
}

TEST(PerCall, Marks_RestrictTheFitOfTheRankThatMarks_Only) {
  VirtualRanks ranks(2);
  ranks.joint({tokens({5}), tokens({5})});
  EXPECT_EQ(outcome_text(ranks.joint({tokens({5}).mark("x", 0, Mark::Static), tokens({5})})),
            "reused 0");
  EXPECT_EQ(outcome_text(ranks.joint({tokens({5}).mark("x", 0, Mark::MaybeDynamic), tokens({5})})),
            "reused 0");
  EXPECT_EQ(outcome_text(ranks.joint({tokens({5}), tokens({5}).mark("x", 0, Mark::Dynamic)})),
            "compiled 1");
  EXPECT_EQ(outcome_text(ranks.joint({tokens({5}).mark("x", 0, Mark::Unbacked), tokens({5})})),
            "compiled 2");
  EXPECT_EQ(outcome_text(ranks.joint({tokens({5}).mark("x", 0, Mark::Dynamic), tokens({5})})),
            "reused 1");
  EXPECT_EQ(outcome_text(ranks.joint({tokens({5}).mark("x", 0, Mark::Static), tokens({5})})),
            "reused 0");
}

TEST(PerCall, RecompileLimit_IsAGroupDecision_FallbackForThatCallOnly) {
  VirtualRanks ranks(2, {.recompile_limit = 2, .settle = false});
  const auto b = [](bool v, std::int64_t n) { return Inputs().boolean("b", v).integer("n", n); };
  ranks.joint({b(true, 3), b(true, 3)});
  ranks.joint({b(false, 3), b(false, 3)});
  const FrameState before = ranks.frame(0).state;
  EXPECT_EQ(outcome_text(ranks.joint({b(true, 4), b(true, 3)})), "fallback");
  EXPECT_EQ(ranks.frame(0).state, before);
  EXPECT_EQ(ranks.joint({b(true, 4), b(false, 4)}).error->code, Code::ConstantMismatch)
      << "errors come before the limit";
  EXPECT_EQ(outcome_text(ranks.joint({b(true, 3), b(true, 3)})), "reused 0");
}

TEST(PerCall, RecompileLimit_DoesNotCountSuperseded_ButHoldsThoughTheNewOneWouldSupersede) {
  VirtualRanks ranks(1, {.recompile_limit = 2, .settle = false});
  ranks.joint({tokens({4})});
  ranks.joint({tokens({5})});
  EXPECT_EQ(outcome_text(ranks.joint({tokens({1})})), "fallback");
  VirtualRanks others(2, {.recompile_limit = 2, .settle = false});
  others.joint({tokens({4}), tokens({5})});
  EXPECT_EQ(outcome_text(others.joint({tokens({1}), tokens({5})})), "compiled 1");
  EXPECT_EQ(outcome_text(others.joint({tokens({1}), tokens({5}).mark("x", 0, Mark::Unbacked)})),
            "compiled 2");
  EXPECT_EQ(outcome_text(others.joint({tokens({1, 1}), tokens({5, 1})})), "fallback");
}

TEST(PerCall, MoreThan64Entries_WithSuperseded_IndicesGoOn) {
  VirtualRanks ranks(1, {.recompile_limit = 64});
  const auto with = [](int i, std::int64_t size) {
    Inputs in;
    for (int bit = 0; bit < 6; ++bit) in.boolean("b" + std::to_string(bit), (i >> bit & 1) != 0);
    return in.tensor("x", {size}).mark("x", 0, Mark::MaybeDynamic);
  };
  for (int i = 0; i < 64; ++i)
    EXPECT_EQ(outcome_text(ranks.joint({with(i, 4)})), "compiled " + std::to_string(i));
  EXPECT_EQ(outcome_text(ranks.joint({with(63, 4)})), "reused 63");
  EXPECT_EQ(outcome_text(ranks.joint({with(63, 1)})), "fallback");
  VirtualRanks roomy(1, {.recompile_limit = 64});
  for (int i = 0; i < 33; ++i) roomy.joint({with(i, 4)});
  for (int i = 0; i < 33; ++i)
    EXPECT_EQ(outcome_text(roomy.joint({with(i, 1)})), "compiled " + std::to_string(33 + i));
  EXPECT_EQ(roomy.frame(0).entries.size(), 66U);
  EXPECT_EQ(outcome_text(roomy.joint({with(32, 4)})), "reused 65");
}

TEST(PerCall, AutomaticDynamicOff_HistoryIsIgnoredThoughRanksStillJoin) {
  VirtualRanks ranks(2, {.automatic_dynamic = false});
  ranks.joint({tokens({1}), tokens({1})});
  ranks.joint({tokens({5}), tokens({5})});
  EXPECT_EQ(newest(ranks), "x: f32[5]");
  ranks.joint({tokens({5}), tokens({6})});
  EXPECT_EQ(newest(ranks), "x: f32[s0] | s0 = x.size(0) min 2 hint 5");
  EXPECT_EQ(outcome_text(ranks.joint({tokens({9}), tokens({9})})), "reused 2");
}

TEST(PerCall, HintDonor_IsTheLowestRankWhoseSymbolsAreAllAtLeastTwo_ForAllSymbols) {
  VirtualRanks ranks(4);
  const auto in = [](std::int64_t a, std::int64_t b, std::int64_t n) {
    return Inputs().tensor("x", {a}).tensor("y", {b}).integer("n", n);
  };
  ranks.joint({in(1, 5, 10), in(4, 0, 11), in(6, 7, 12), in(8, 9, 13)});
  EXPECT_EQ(newest(ranks),
            "n: int s0; x: f32[s1]; y: f32[s2] | s0 = n hint 12, s1 = x.size(0) min 0 hint 6, s2 = "
            "y.size(0) min 0 hint 7");
  EXPECT_EQ(ranks.broadcasts, 1);
}

TEST(PerCall, HintDonor_NobodyQualifies_RankZero) {
  VirtualRanks ranks(2);
  const auto in = [](std::int64_t a, std::int64_t b) {
    return Inputs().tensor("x", {a}).tensor("y", {b});
  };
  ranks.joint({in(1, 5), in(4, 0)});
  EXPECT_EQ(newest(ranks),
            "x: f32[s0]; y: f32[s1] | s0 = x.size(0) min 0 hint 1, s1 = y.size(0) min 0 hint 5");
}

TEST(PerCall, Hints_ThatATraceBranchesOn_AreTheDonorsOnEveryRank) {
  VirtualRanks ranks(3);
  std::vector<std::int64_t> hints(3);
  ranks.tracer = [&hints](Rank rank, const Decision& decision) {
    hints[static_cast<std::size_t>(rank.value)] = decision.symbols.at(0).hint;
    return TraceReport{};
  };
  const auto in = [](std::int64_t n) { return Inputs().tensor("x", {n}); };
  ranks.joint({in(1), in(6), in(8)});
  EXPECT_EQ(hints, (std::vector<std::int64_t>{6, 6, 6}));
}

TEST(PerCall, NoInputs_CompilesAnEmptyDecisionOnce) {
  VirtualRanks ranks(3);
  EXPECT_EQ(outcome_text(ranks.joint(std::vector<Inputs>(3))), "compiled 0");
  EXPECT_EQ(outcome_text(ranks.joint(std::vector<Inputs>(3))), "reused 0");
}

TEST(PerCall, DifferentProfiles_StillAgree_AndAllRanksEndWithOneState) {
  VirtualRanks ranks(2);
  FrameState stored;
  stored["x"] = shapes::join(shapes::Dynamism::of_tensor(std::vector<std::int64_t>{1, 3}),
                             shapes::Dynamism::of_tensor(std::vector<std::int64_t>{7, 3}));
  stored["gone"] = shapes::Dynamism::of_int(4);
  ranks.frame(1).adopt(stored);
  ranks.joint({tokens({5, 3}), tokens({5, 3})});
  EXPECT_EQ(newest(ranks), "x: f32[s0, 3] | s0 = x.size(0) min 0 hint 5");
  EXPECT_EQ(ranks.frame(0).state, ranks.frame(1).state);
  EXPECT_EQ(ranks.frame(0).digest(), ranks.frame(1).digest());
  EXPECT_EQ(ranks.frame(0).state.at("gone"), stored["gone"]);
}

}  // namespace
}  // namespace lockstep::worker::per_call_test
