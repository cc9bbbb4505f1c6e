#include "naive_exchange.h"
#include "virtual_ranks.h"
#include <gtest/gtest.h>

#include <lockstep/worker/agree/agreement/code_cache.h>

namespace lockstep::worker::code_cache_test {
namespace {

Entry entry_for(const Inputs& inputs, std::vector<shapes::Guard> guards = {}) {
  const Observation seen = inputs.build();
  const Decision decision = decide(joint_of({seen}), {});
  return Entry::make(decision, decision, seen.list, std::move(guards), {});
}

Inputs dynamic(std::int64_t size) {
  return Inputs().integer("n", 3).tensor("x", {size, 10}).mark("x", 0, Mark::Dynamic);
}

TEST(CodeCache, EntryOfAnotherHostValue_IsNotReplaced) {
  const auto make = [](double limit) {
    Observation seen = Inputs().real("lr").build();
    const Decision decision = decide(joint_of({seen}), {});
    const HostValue above{{{HostValue::Code::Input, "lr"},
                           {HostValue::Code::Number, {}, limit},
                           {HostValue::Code::Gt}}};
    return Entry::make(decision, decision, seen.list,
                       {{shapes::equal(shapes::Expr::symbol({false, 0}), 1), {"train.cpp", 7}}}, {},
                       {}, {above});
  };
  EXPECT_TRUE(make(0.5).replaces(make(0.5)));
  EXPECT_FALSE(make(0.5).replaces(make(0.25))) << "the same guard, of another value";
  EXPECT_FALSE(make(0.25).replaces(make(0.5)));
}

TEST(CodeCache, Explain_NamesTheValueTheMarkOrTheGuardWithItsLine) {
  CodeCache frame("f");
  frame.commit(entry_for(Inputs().integer("n", 3).tensor("x", {5, 10})), {}, 0);
  frame.commit(entry_for(dynamic(5)), {}, 0);
  frame.commit(entry_for(dynamic(5),
                         {{shapes::less(shapes::Expr::symbol({false, 0}), 8), {"train.cpp", 41}}}),
               {}, 0);
  frame.commit(entry_for(Inputs().boolean("b", true)), {}, 0);
  const auto misfits = frame.explain(Inputs().integer("n", 3).tensor("x", {9, 10}).build());
  ASSERT_EQ(misfits.size(), 3U);
  EXPECT_EQ(misfits[0].entry, 0);
  EXPECT_EQ(misfits[0].reason, "x.size(0) is 9, the entry has 5");
  EXPECT_EQ(misfits[1].entry, 2);
  EXPECT_NE(misfits[1].reason.find("x.size(0)"), std::string::npos) << misfits[1].reason;
  EXPECT_NE(misfits[1].reason.find("train.cpp:41"), std::string::npos) << misfits[1].reason;
  EXPECT_EQ(misfits[2].entry, 3);
  const auto low = frame.explain(Inputs().integer("n", 3).tensor("x", {1, 10}).build());
  EXPECT_EQ(low[1].reason, "x.size(0) is 1, the entry needs at least 2");
  const auto marked = frame.explain(
      Inputs().integer("n", 3).tensor("x", {5, 10}).mark("x", 1, Mark::Dynamic).build());
  EXPECT_EQ(marked[0].reason, "x.size(1) is marked dynamic, in the entry it is static");
  const auto boolean = frame.explain(Inputs().boolean("b", false).build());
  EXPECT_EQ(boolean[3].reason, "b is false, the entry has true");
}

TEST(CodeCache, Explain_SaysWhichInputIsAnother) {
  CodeCache frame("f");
  frame.commit(entry_for(Inputs().integer("n", 3).tensor("x", {5, 10})), {}, 0);
  const auto why = [&](Inputs inputs) { return frame.explain(inputs.build()).at(0).reason; };
  EXPECT_EQ(why(Inputs().integer("n", 3).tensor("x", {5, 10}).real("lr")),
            "the entry has no input lr");
  EXPECT_EQ(why(Inputs().tensor("x", {5, 10})), "input n of the entry is missing");
  EXPECT_EQ(why(Inputs().boolean("n", true).tensor("x", {5, 10})),
            "n is bool, in the entry it is int");
  EXPECT_EQ(why(Inputs().integer("n", 3).tensor("x", {5}, DType::F64)),
            "x is a tensor f64 of 1 dim, in the entry it is a tensor f32 of 2 dims");
}

TEST(CodeCache, Explain_SpeaksOfExactlyTheEntriesThatLookupLeavesOut) {
  CodeCache frame("f");
  frame.commit(entry_for(Inputs().integer("n", 3).tensor("x", {5, 10})), {}, 0);
  frame.commit(entry_for(dynamic(5)), {}, 0);
  for (std::int64_t size : {0, 1, 2, 5, 9})
    for (Mark mark : {Mark::None, Mark::Dynamic, Mark::MaybeDynamic, Mark::Unbacked, Mark::Static,
                      Mark::Uniform}) {
      const Observation seen =
          Inputs().integer("n", 3).tensor("x", {size, 10}).mark("x", 0, mark).build();
      std::uint64_t left_out = 0;
      for (const Misfit& misfit : frame.explain(seen)) left_out |= std::uint64_t{1} << misfit.entry;
      EXPECT_EQ(frame.lookup(seen), 3U & ~left_out);
    }
}

TEST(CodeCache, Guards_AreOverTheBackedSymbolsOfTheDecision_UnbackedCountedApart) {
  const Inputs inputs = Inputs()
                            .tensor("a", {4, 5, 6})
                            .mark("a", 0, Mark::Dynamic)
                            .mark("a", 1, Mark::Unbacked)
                            .mark("a", 2, Mark::Dynamic);
  CodeCache frame("f");
  frame.commit(
      entry_for(inputs, {{shapes::equal(shapes::Expr::symbol({false, 1}), 6), {"train.cpp", 1}}}),
      {}, 0);
  EXPECT_EQ(frame.lookup(inputs.build()), 1U);
  EXPECT_EQ(frame.lookup(Inputs().tensor("a", {4, 9, 6}).build()), 1U);
  EXPECT_EQ(frame.lookup(Inputs().tensor("a", {4, 5, 7}).build()), 0U);
}

TEST(CodeCache, Superseded_IsNeverLookedUp_AndBitsCountTheOthers) {
  CodeCache frame("f");
  frame.commit(entry_for(Inputs().integer("n", 1)), {}, 0);
  frame.commit(entry_for(Inputs().integer("n", 2)), {}, 0);
  frame.commit(entry_for(Inputs().integer("n", 3)), {}, 0b01);
  EXPECT_EQ(frame.live(), 2);
  EXPECT_EQ(frame.lookup(Inputs().integer("n", 1).build()), 0U);
  EXPECT_EQ(frame.lookup(Inputs().integer("n", 2).build()), 0b01U);
  EXPECT_EQ(frame.pick(0b01), 1);
  EXPECT_EQ(frame.lookup(Inputs().integer("n", 3).build()), 0b10U);
  EXPECT_EQ(frame.pick(0b11), 1);
}

TEST(RoundKey, EveryField_ChangesTheHash) {
  RoundKey key;
  key.group = "world";
  key.frame = "train_step";
  const auto differs = [&key](auto change) {
    RoundKey other = key;
    change(other);
    return other.hash() != key.hash();
  };
  EXPECT_TRUE(differs([](RoundKey& k) { k.epoch = 1; }));
  EXPECT_TRUE(differs([](RoundKey& k) {
    k.group = "worl";
    k.frame = "dtrain_step";
  }));
  EXPECT_TRUE(differs([](RoundKey& k) { k.frame = "train_stepp"; }));
  EXPECT_TRUE(differs([](RoundKey& k) { k.round = 1; }));
  EXPECT_TRUE(differs([](RoundKey& k) { k.attempt = 1; }));
  EXPECT_TRUE(differs([](RoundKey& k) { k.kind = RoundKey::Kind::Close; }));
}

TEST(CodeCache, DigestsKeptByEachCommit_AreThoseOfAFrameMadeAtOnce) {
  const auto state_of = [](int seed) {
    FrameState state;
    for (int s = 0; s < 6; ++s)
      if ((seed >> s & 1) != 0)
        state["x" + std::to_string(s)] = shapes::Dynamism::of_int(seed % 5 + (s == 3 ? seed : 0));
    return state;
  };
  CodeCache kept("f");
  std::map<std::uint64_t, FrameState> seen;
  for (int step = 0; step < 200; ++step) {
    const FrameState state = state_of(step * 37 % 64);
    kept.adopt(state);
    CodeCache fresh("f");
    fresh.adopt(state);
    ASSERT_EQ(kept.digest(), fresh.digest()) << step;
    ASSERT_EQ(kept.state_digest(), fresh.state_digest()) << step;
    ASSERT_EQ(seen.try_emplace(kept.digest(), state).first->second, state) << step;
  }
}

TEST(CodeCache, TheEntriesDigest_TellsEntriesTheirOrderAndWhatIsSuperseded) {
  const auto digest = [](std::vector<std::int64_t> sizes, std::uint64_t replaced) {
    CodeCache frame("f");
    for (std::size_t i = 0; i < sizes.size(); ++i)
      frame.commit(entry_for(Inputs().tensor("x", {sizes[i]})), {},
                   i + 1 == sizes.size() ? replaced : 0);
    return frame.entries_digest();
  };
  EXPECT_EQ(digest({2, 3}, 0), digest({2, 3}, 0));
  EXPECT_NE(digest({2, 3}, 0), digest({3, 2}, 0));
  EXPECT_NE(digest({2, 3}, 0), digest({2, 3}, 1));
  EXPECT_NE(digest({2, 3}, 0), digest({2}, 0));
  EXPECT_NE(digest({2, 2}, 0), digest({3, 3}, 0));
}

}  // namespace
}  // namespace lockstep::worker::code_cache_test
