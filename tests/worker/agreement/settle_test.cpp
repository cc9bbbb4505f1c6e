// The rules of worker/agree/exchange/rules.md, "Frames settle"; and what a user is told.
#include <random>

#include "naive_exchange.h"
#include "virtual_ranks.h"
#include <gtest/gtest.h>

#include <lockstep/worker/agree/agreement/recompile_advice.h>

namespace lockstep::worker::settle_test {
namespace {

std::string newest(VirtualRanks& ranks) {
  return decision_text(ranks.frame(0).entries.back().reported);
}

/// Two tensors, an int and a bool.
Inputs inputs(std::int64_t x, std::int64_t y, std::int64_t n = 3, bool flag = true) {
  return Inputs().boolean("b", flag).integer("n", n).tensor("x", {x, 4}).tensor("y", {y});
}

TEST(Settle, TheCompileThatWouldBeTheHalf_TakesEverySizeAndIntAsASymbol) {
  VirtualRanks ranks(2, {.recompile_limit = 5});
  EXPECT_EQ(outcome_text(ranks.joint({inputs(3, 7), inputs(3, 7)})), "compiled 0");
  EXPECT_EQ(outcome_text(ranks.joint({inputs(5, 7), inputs(5, 7)})), "compiled 1");
  EXPECT_EQ(newest(ranks),
            "b: bool true; n: int 3; x: f32[s0, 4]; y: f32[7] | s0 = x.size(0) min "
            "2 hint 5");
  EXPECT_EQ(outcome_text(ranks.joint({inputs(5, 9), inputs(6, 9)})), "compiled 2");
  EXPECT_EQ(newest(ranks),
            "b: bool true; n: int s0; x: f32[s1, s2]; y: f32[s3] | s0 = n hint 3, "
            "s1 = x.size(0) min 0 hint 5, s2 = x.size(1) min 0 hint 4, s3 = "
            "y.size(0) min 0 hint 9");
  EXPECT_EQ(outcome_text(ranks.joint({inputs(0, 1, -5), inputs(1, 0, 8)})), "reused 2");
  EXPECT_EQ(outcome_text(ranks.joint({inputs(8, 7), inputs(9, 7)})), "reused 1");
  EXPECT_EQ(outcome_text(ranks.joint({inputs(3, 7), inputs(3, 7)})), "reused 0");
}

TEST(Settle, LimitsOfOneAndTwo_SettleTheFirstCompile) {
  for (const int limit : {1, 2}) {
    VirtualRanks ranks(1, {.recompile_limit = limit});
    ranks.joint({inputs(3, 7)});
    EXPECT_EQ(ranks.frame(0).entries[0].reported.symbols.size(), 4U);
    EXPECT_EQ(outcome_text(ranks.joint({inputs(0, 1, 9)})), "reused 0");
  }
}

TEST(Settle, Marks_StaticStaysStatic_UnbackedStaysUnbacked) {
  VirtualRanks ranks(2, {.recompile_limit = 2});
  ranks.joint({inputs(3, 7).mark("x", 1, Mark::Static), inputs(3, 7).mark("y", 0, Mark::Unbacked)});
  EXPECT_EQ(newest(ranks),
            "b: bool true; n: int s0; x: f32[s1, 4]; y: f32[s2] | s0 = n hint 3, s1 "
            "= x.size(0) min 0 hint 3, s2 = y.size(0) unbacked min 0 hint 7");
}

TEST(Settle, ItIsNoPartOfTheState) {
  VirtualRanks on(2, {.recompile_limit = 1}), off(2, {.recompile_limit = 1, .settle = false});
  for (VirtualRanks* ranks : {&on, &off}) ranks->joint({inputs(3, 7), inputs(3, 7)});
  EXPECT_EQ(on.frame(0).state, off.frame(0).state);
  EXPECT_NE(on.frame(0).entries[0].reported, off.frame(0).entries[0].reported);
}

TEST(Settle, OtherBoolsAndOtherInputs_AreOtherStructures) {
  VirtualRanks ranks(1, {.recompile_limit = 4});
  ranks.joint({inputs(3, 7)});
  ranks.joint({inputs(3, 7, 3, false)});
  EXPECT_TRUE(ranks.frame(0).entries[1].reported.symbols.empty());
  ranks.joint({Inputs().tensor("z", {3})});
  EXPECT_TRUE(ranks.frame(0).entries[2].reported.symbols.empty());
  ranks.joint({Inputs().tensor("z", {5})});
  EXPECT_EQ(newest(ranks), "z: f32[s0] | s0 = z.size(0) min 0 hint 5");
  EXPECT_EQ(outcome_text(ranks.joint({inputs(4, 7)})), "fallback");
}

TEST(Settle, SupersededEntries_AreNotCounted) {
  VirtualRanks ranks(1, {.recompile_limit = 7});
  const auto call = [&](std::int64_t x, std::int64_t y) {
    return outcome_text(ranks.joint({Inputs().tensor("x", {x}).tensor("y", {y, 3})}));
  };
  for (const std::int64_t size : {3, 5, 1}) (void)call(size, 4);
  EXPECT_TRUE(ranks.frame(0).entries[1].superseded);
  EXPECT_EQ(call(3, 6), "compiled 3");
  EXPECT_EQ(newest(ranks),
            "x: f32[s0]; y: f32[s1, 3] | s0 = x.size(0) min 0 hint 3, s1 = y.size(0) min 0 hint 6")
      << "two of three entries were alive";
}

TEST(Settle, SharedSizes_CountsEntriesThatAreAlikeOnEveryRank) {
  VirtualRanks ranks(2, {.consistency = Consistency::SharedSizes, .recompile_limit = 4});
  const auto at = [](const char* name, std::int64_t size) {
    return Inputs().tensor("x", {size}).tensor(name, {2});
  };
  ranks.joint({at("a", 3), at("a", 3)});
  ranks.joint({at("a", 3), at("b", 3)});
  EXPECT_TRUE(ranks.frame(1).entries[1].decision.symbols.empty())
      << "the entry before is alike on rank 0 only";
  ranks.joint({at("a", 3), at("b", 4)});
  for (int r = 0; r < 2; ++r) EXPECT_EQ(ranks.frame(r).entries[2].decision.symbols.size(), 2U);
  EXPECT_EQ(outcome_text(ranks.joint({at("a", 9), at("b", 8)})), "reused 2");
}

TEST(Settle, SpecializedInts_AreConstantsInASettledEntryToo) {
  VirtualRanks ranks(1, {.recompile_limit = 1, .specialize_int = true});
  ranks.joint({inputs(3, 7)});
  EXPECT_EQ(newest(ranks),
            "b: bool true; n: int 3; x: f32[s0, s1]; y: f32[s2] | s0 = x.size(0) "
            "min 0 hint 3, s1 = x.size(1) min 0 hint 4, s2 = y.size(0) min 0 hint "
            "7");
}

TEST(Settle, TraceThatFails_IsMadeAgainWithTheSizesThatVary) {
  VirtualRanks ranks(3, {.recompile_limit = 2});
  int traces = 0;
  ranks.tracer = [&](Rank rank, const Decision& decision) {
    ++traces;
    TraceReport report;
    report.graph = {1, decision.symbols.size()};
    if (rank.value == 1 && !decision.symbols.empty())
      report.failure = Status{Code::TraceError, "takes numbers", {}, {}};
    return report;
  };
  EXPECT_EQ(outcome_text(ranks.joint({inputs(3, 7), inputs(3, 7), inputs(3, 7)})), "compiled 0");
  EXPECT_EQ(traces, 6);
  EXPECT_TRUE(ranks.frame(2).entries[0].decision.symbols.empty());
  const CallOutcome wrong = ranks.joint({inputs(3, 7), inputs(4, 7), inputs(3, 7)});
  ASSERT_EQ(wrong.kind, CallOutcome::Kind::Error) << "x varies, so it cannot be a number";
  EXPECT_EQ(wrong.error->code, Code::TraceError);
}

/// Structures with more entries than half of the limit.
int crowded(VirtualRanks& ranks, int limit) {
  std::map<std::string, int> alive;
  for (std::size_t e = 0; e < ranks.frame(0).entries.size(); ++e) {
    if (ranks.frame(0).entries[e].superseded) continue;
    std::string structure;
    for (int r = 0; r < ranks.size(); ++r)
      for (const SourceDecision& source : ranks.frame(r).entries[e].decision.sources) {
        structure += source.spec.name + " " + std::to_string(static_cast<int>(source.spec.kind)) +
                     " " + std::to_string(source.spec.ndim) + " ";
        if (source.spec.kind == Kind::Bool) structure += source.dims[0].value != 0 ? "y " : "n ";
      }
    ++alive[structure];
  }
  int out = 0;
  for (const auto& [structure, count] : alive) out += count > (limit + 1) / 2 ? 1 : 0;
  return out;
}

TEST(Settle, WhateverSizesCome_NoStructureHasMoreThanHalfOfTheLimit) {
  int full = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
    const int limit = 1 + static_cast<int>(seed % 8);
    const auto consistency = static_cast<Consistency>(below(3));
    const bool history = below(4) != 0;
    VirtualRanks ranks(1 + static_cast<int>(below(4)), {.consistency = consistency,
                                                        .automatic_dynamic = history,
                                                        .assume_at_least_two = below(3) != 0,
                                                        .recompile_limit = limit});
    const bool own_lists = consistency == Consistency::SharedSizes && below(2) == 0;
    for (int call = 0; call < 30; ++call) {
      const bool flag = below(8) == 0;
      std::vector<std::int64_t> common;
      for (int i = 0; i < 6; ++i) common.push_back(below(4));
      std::vector<Inputs> seen;
      for (int r = 0; r < ranks.size(); ++r) {
        Inputs in;
        in.boolean("flag", flag).integer("n", common[5]);
        for (std::size_t i = 0; i < 5; ++i)
          in.tensor("x" + std::to_string(i), {below(3) == 0 ? below(4) : common[i], 2});
        if (own_lists && below(4) == 0) in.tensor("own", {below(3)});
        seen.push_back(in);
      }
      const CallOutcome outcome = ranks.joint(seen);
      ASSERT_NE(outcome.kind, CallOutcome::Kind::Error) << "seed " << seed;
      ASSERT_EQ(crowded(ranks, limit), 0) << "seed " << seed << ", call " << call;
      if (outcome.kind != CallOutcome::Kind::Fallback) continue;
      ASSERT_EQ(ranks.frame(0).live(), limit) << "seed " << seed;
      ++full;
    }
    // Two values of the bool, each half of the limit, rounded up.
    if (!own_lists && limit % 2 == 0) {
      ASSERT_LE(ranks.frame(0).live(), limit);
    }
  }
  EXPECT_GT(full, 0) << "no job came to its limit";
}

TEST(Roster, EntriesThatAreAlike_AreThoseThatAreSoOnEveryRank) {
  Roster a, b;
  a.alike = 0b1101, b.alike = 0b0111;
  const auto joined = decode_roster(join_rosters(encode(a), encode(b)));
  ASSERT_TRUE(joined);
  EXPECT_EQ(joined->alike, 0b0101U);
  EXPECT_EQ(decode_roster(encode(a)), a);
  b.alike.reset();
  EXPECT_FALSE(decode_roster(join_rosters(encode(a), encode(b)))) << "one of them does not settle";
}

Entry entry_of(const Inputs& in, bool settled, std::vector<shapes::Guard> guards = {}) {
  const Observation seen = in.build();
  JointObservation joint = joint_of({seen});
  joint.settle(settled, false);
  const Decision decision = decide(joint, {});
  return Entry::make(decision, decision, seen.list, std::move(guards), {});
}

TEST(RecompileAdvice, NamesSizesAndIntsThatGuardsMakeNumbers_ByTheirLine) {
  using shapes::Expr;
  const Expr n = Expr::symbol({false, 0}), x0 = Expr::symbol({false, 1}),
             x1 = Expr::symbol({false, 2}), y = Expr::symbol({false, 3});
  const std::vector<shapes::Guard> guards{{shapes::equal(n, 3), {"a.cpp", 1}, "fixes n to 3"},
                                          {shapes::greater_equal(x0, 3), {"a.cpp", 2}},
                                          {shapes::less_equal(x0, 3), {"a.cpp", 3}},
                                          {shapes::less_equal(x1, 9), {"a.cpp", 4}},
                                          {shapes::equal(y, x1 + 3), {"a.cpp", 5}}};
  const auto told = numbers_again(entry_of(inputs(3, 7), true, guards));
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[0],
            "a.cpp:1 makes n a number, so each of its values is an entry of its own; compute with "
            "the SymInt itself in place of to_int(), select with where() in place of a branch, or "
            "pass it as a 0-d tensor");
  EXPECT_EQ(
      told[1],
      "a.cpp:3 makes x.size(0) a number, so each of its values is an entry of its own; "
      "compute with the SymInt itself in place of to_int(), select with where() in place of a "
      "branch, or mark the dim static if it never varies");
  EXPECT_TRUE(numbers_again(entry_of(inputs(3, 7).mark("y", 0, Mark::Dynamic), false,
                                     {{shapes::equal(n, 7), {"a.cpp", 6}}}))
                  .empty())
      << "a dim that varies: the entry does not settle anything";
}

/// Tensors by name.
Entry entry_of_names(const std::vector<std::string>& names) {
  Inputs in;
  for (const std::string& name : names) in.tensor(name, {2});
  return entry_of(in, false);
}

TEST(RecompileAdvice, NamesAListWhoseLengthIsAllThatDiffers) {
  std::vector<Entry> entries;
  entries.push_back(entry_of_names({"w", "b.xs[0].v", "b.xs[0].m"}));
  EXPECT_TRUE(growing_lists(entries).empty());
  entries.push_back(entry_of_names({"w", "b.xs[0].v", "b.xs[0].m", "b.xs[1].v", "b.xs[1].m"}));
  EXPECT_TRUE(growing_lists(entries).empty());
  entries.push_back(entry_of_names({"w"}));
  const auto told = growing_lists(entries);
  EXPECT_TRUE(told.empty()) << "the shortest has no element to name the list by";
  std::vector<std::string> names{"w"};
  for (int i = 0; i < 11; ++i)
    for (const char* field : {".v", ".m"})
      names.push_back("b.xs[" + std::to_string(i) + "]" + field);
  entries.push_back(entry_of_names(names));
  EXPECT_EQ(growing_lists(entries),
            std::vector<std::string>{
                "the list b.xs has come with 0, 1, 2 and 11 elements, and each length is an entry "
                "of its own; stack the elements into one tensor, whose size may vary, or pad the "
                "list to one length"});
}

TEST(RecompileAdvice, OtherDifferences_AreNoGrowingList) {
  std::vector<Entry> other_too;
  other_too.push_back(entry_of_names({"xs[0]"}));
  other_too.push_back(entry_of_names({"xs[0]", "xs[1]", "z"}));
  other_too.push_back(entry_of_names({"xs[0]", "xs[1]", "xs[2]"}));
  EXPECT_TRUE(growing_lists(other_too).empty());
  std::vector<Entry> map;  // keys are no elements
  map.push_back(entry_of_names({"m[\"0\"]"}));
  map.push_back(entry_of_names({"m[\"0\"]", "m[\"1\"]"}));
  map.push_back(entry_of_names({"m[\"0\"]", "m[\"1\"]", "m[\"2\"]"}));
  EXPECT_TRUE(growing_lists(map).empty());
  std::vector<Entry> one_length;
  for (int i = 0; i < 3; ++i) one_length.push_back(entry_of_names({"xs[0]", "xs[1]"}));
  EXPECT_TRUE(growing_lists(one_length).empty());
}

}  // namespace
}  // namespace lockstep::worker::settle_test
