// PyTorch's own multi-rank tests of compiler collectives and automatic dynamic, by the numbers of
// our list of them (README.md here), and what that list found missing there. Upstream asserts that
// compile counts are equal; here every rank's outcome, entry, decision and cost of each call is
// known. "Rank 0 / others", at 2, 3 and 5 ranks.
#include "virtual_ranks.h"
#include <gtest/gtest.h>

namespace lockstep::worker::upstream_test {
namespace {

using Texts = std::vector<std::string>;
using Calls = std::vector<std::vector<Inputs>>;

constexpr DecisionConfig kShared{.consistency = Consistency::SharedSizes};

Inputs x(std::vector<std::int64_t> sizes) { return Inputs().tensor("x", std::move(sizes)); }

/// Runs `body` with a group of each size, under a name that a failure shows.
template <class Body>
void at_each_size(Body body) {
  for (const int size : {2, 3, 5}) {
    SCOPED_TRACE("at " + std::to_string(size) + " ranks");
    body(size);
  }
}

/// Rank 0's inputs and everybody else's.
std::vector<Inputs> split(int size, const Inputs& first, const Inputs& others) {
  std::vector<Inputs> all(static_cast<std::size_t>(size), others);
  all[0] = first;
  return all;
}

/// Every call joint: one outcome for all ranks, and as many entries on each.
Texts outcomes(VirtualRanks& ranks, const Calls& calls) {
  Texts out;
  for (const auto& inputs : calls) {
    out.push_back(outcome_text(ranks.joint(inputs)));
    for (int r = 1; r < ranks.size(); ++r) {
      EXPECT_EQ(ranks.frame(r).entries.size(), ranks.frame(0).entries.size());
      EXPECT_EQ(ranks.frame(r).digest(), ranks.frame(0).digest());
    }
  }
  return out;
}

/// Entry `entry` as every rank compiled it; fails the test where ranks differ.
std::string decided(VirtualRanks& ranks, std::size_t entry) {
  const auto text = [&](int r) { return decision_text(ranks.frame(r).entries.at(entry).decision); };
  for (int r = 1; r < ranks.size(); ++r) EXPECT_EQ(text(r), text(0));
  return text(0);
}

/// How often each rank traced.
std::vector<int> count_traces(VirtualRanks& ranks) {
  return std::vector<int>(static_cast<std::size_t>(ranks.size()), 0);
}

// Upstream: 5/6, then 8/6 recompiles. Here the first call has seen both sizes.
TEST(UpstreamRow01, AutomaticDynamicTensor_IsDynamicAtTheFirstCall_AndNeverCompilesAgain) {
  at_each_size([](int size) {
    VirtualRanks ranks(size);
    EXPECT_EQ(
        outcomes(ranks, {split(size, x({5, 10}), x({6, 10})), split(size, x({8, 10}), x({6, 10})),
                         split(size, x({6, 10}), x({3, 10}))}),
        (Texts{"compiled 0", "reused 0", "reused 0"}));
    EXPECT_EQ(decided(ranks, 0), "x: f32[s0, 10] | s0 = x.size(0) min 2 hint 5");
    // The steady state is one vote and nothing else.
    EXPECT_EQ(ranks.votes, 1);
    EXPECT_EQ(ranks.exchanges, 0);
  });
}

// Upstream: rank 1 recompiles at step 2 and pairs with rank 0's step 3.
TEST(UpstreamRow02, AutomaticDynamicScalar_CompilesTwiceAtTheSameTwoCalls) {
  at_each_size([](int size) {
    const auto y = [](std::int64_t v) { return x({5}).integer("y", v); };
    VirtualRanks ranks(size);
    EXPECT_EQ(outcomes(ranks,
                       {split(size, y(3), y(3)), split(size, y(3), y(4)), split(size, y(7), y(9))}),
              (Texts{"compiled 0", "compiled 1", "reused 1"}));
    EXPECT_EQ(decided(ranks, 0), "x: f32[5]; y: int 3");
    EXPECT_EQ(decided(ranks, 1), "x: f32[5]; y: int s0 | s0 = y hint 3");
  });
}

// Upstream: the trace is thrown away and restarted when ranks disagree. Here sizes are agreed on
// before the first and only trace.
TEST(UpstreamRow03, SpeculationDivergence_IsDynamicAtTheFirstCall_WithOneTracePerRank) {
  at_each_size([](int size) {
    const auto in = [](std::int64_t a, std::int64_t b) { return x({a}).tensor("y", {b}); };
    VirtualRanks ranks(size);
    std::vector<int> traces = count_traces(ranks);
    const auto plain = ranks.tracer;
    ranks.tracer = [&](Rank rank, const Decision& decision) {
      ++traces[static_cast<std::size_t>(rank.value)];
      return plain(rank, decision);
    };
    EXPECT_EQ(outcomes(ranks, {split(size, in(4, 4), in(3, 4)), split(size, in(3, 4), in(4, 4))}),
              (Texts{"compiled 0", "reused 0"}));
    EXPECT_EQ(decided(ranks, 0), "x: f32[s0]; y: f32[4] | s0 = x.size(0) min 2 hint 4");
    EXPECT_EQ(traces, std::vector<int>(traces.size(), 1));
  });
}

// Upstream: a fragment without operations skipped the exchange (its issue 132163).
TEST(UpstreamRow04, EmptyGraph_TakesPartInEveryRoundLikeAnyOther) {
  at_each_size([](int size) {
    VirtualRanks full(size), empty(size);
    empty.tracer = [](Rank, const Decision&) { return TraceReport{}; };
    const Calls calls{split(size, x({5}), x({3})), split(size, x({5}), x({4})),
                      split(size, x({6}), x({5}))};
    for (const auto& inputs : calls) {
      EXPECT_EQ(outcome_text(empty.joint(inputs)), outcome_text(full.joint(inputs)));
      EXPECT_EQ(empty.votes, full.votes);
      EXPECT_EQ(empty.exchanges, full.exchanges);
      EXPECT_EQ(empty.broadcasts, full.broadcasts);
    }
    EXPECT_EQ(decided(empty, 0), "x: f32[s0] | s0 = x.size(0) min 2 hint 5");
    EXPECT_EQ(empty.frame(0).entries.size(), 1U);
  });
}

TEST(UpstreamRow05, DimMismatch_IsAnErrorWithBothCounts_AndFullyDynamicUnderSharedSizes) {
  at_each_size([](int size) {
    const auto inputs = split(size, x({4, 2}), x({3}));
    VirtualRanks strict(size);
    const Status error = strict.joint(inputs).error.value_or(Status{});
    EXPECT_EQ(error.code, Code::NdimMismatch);
    EXPECT_EQ(error.source, "x");
    ASSERT_EQ(error.groups.size(), 2U);
    EXPECT_EQ(error.groups[0], (RankValue{RankSet::of({0}), "2"}));
    EXPECT_EQ(error.groups[1].value, "1");
    EXPECT_EQ(error.groups[1].ranks.size(), size - 1);

    VirtualRanks shared(size, kShared);
    EXPECT_EQ(outcomes(shared, {inputs, inputs}), (Texts{"compiled 0", "reused 0"}));
    EXPECT_EQ(shared.frame(0).entries[0].decision.symbols.size(), 2U);
    for (int r = 1; r < size; ++r)
      EXPECT_EQ(shared.frame(r).entries[0].decision.symbols.size(), 1U);
  });
}

/// Rank r has source "xs[r]" alone.
std::vector<Inputs> own_sources(int size, bool scalar) {
  std::vector<Inputs> all;
  for (int r = 0; r < size; ++r) {
    const std::string name = "xs[" + std::to_string(r) + "]";
    all.push_back(scalar ? Inputs().integer(name, 10 + r) : Inputs().tensor(name, {10}));
  }
  return all;
}

void expect_missing_source(bool scalar) {
  at_each_size([scalar](int size) {
    const auto inputs = own_sources(size, scalar);
    VirtualRanks strict(size);
    const Status error = strict.joint(inputs).error.value_or(Status{});
    EXPECT_EQ(error.code, Code::SourceMismatch);
    EXPECT_EQ(error.source, "xs[0]");
    ASSERT_EQ(error.groups.size(), 2U);
    EXPECT_EQ(error.groups[0], (RankValue{RankSet::of({0}), "present"}));
    EXPECT_EQ(error.groups[1].value, "absent");

    VirtualRanks shared(size, kShared);
    EXPECT_EQ(outcomes(shared, {inputs, inputs}), (Texts{"compiled 0", "reused 0"}));
    // A source that one rank alone has says nothing to the others: it stays static.
    for (int r = 0; r < size; ++r) EXPECT_TRUE(shared.frame(r).entries[0].decision.symbols.empty());
  });
}

TEST(UpstreamRow06, MissingSource_IsAnErrorThatNamesIt_AndFineUnderSharedSizes) {
  expect_missing_source(false);
}

TEST(UpstreamRow07, ScalarMissingSource_IsAnErrorThatNamesIt_AndFineUnderSharedSizes) {
  expect_missing_source(true);
}

// Upstream: unequal counts (its issue 175849), and the follow-up call is commented out there
// because it deadlocks.
TEST(UpstreamRow08, TypeMismatch_DoesNotDeadlock_NorDoesTheFollowUp) {
  at_each_size([](int size) {
    const Calls calls{split(size, x({10}), Inputs().integer("x", 12)),
                      split(size, x({12}), Inputs().integer("x", 10))};
    VirtualRanks strict(size);
    for (const auto& inputs : calls) {
      const Status error = strict.joint(inputs).error.value_or(Status{});
      EXPECT_EQ(error.code, Code::KindMismatch);
      ASSERT_EQ(error.groups.size(), 2U);
      EXPECT_EQ(error.groups[0].value, "tensor");
      EXPECT_EQ(error.groups[1].value, "int");
    }
    EXPECT_TRUE(strict.frame(0).entries.empty());
    VirtualRanks shared(size, kShared);
    EXPECT_EQ(outcomes(shared, calls), (Texts{"compiled 0", "reused 0"}));
    for (int r = 0; r < size; ++r)
      EXPECT_EQ(shared.frame(r).entries[0].decision.symbols.size(), 1U);
  });
}

// Upstream's remedy too is a collective on every call; here it is the vote.
TEST(UpstreamRow09, GuardCollective_OneRankMisses_AllCompileOnce_AndTheHitIsOverruled) {
  at_each_size([](int size) {
    VirtualRanks ranks(size);
    EXPECT_EQ(outcomes(ranks, {split(size, x({10}), x({10})), split(size, x({10}), x({12})),
                               split(size, x({10}), x({10})), split(size, x({11}), x({12}))}),
              (Texts{"compiled 0", "compiled 1", "reused 0", "reused 1"}));
    EXPECT_EQ(decided(ranks, 1), "x: f32[s0] | s0 = x.size(0) min 2 hint 10");
  });
}

TEST(UpstreamRow18, ExclusionBasic_TheFirstSizeGoesBackToTheFirstGraph) {
  VirtualRanks ranks(2);
  const auto both = [](std::int64_t n) { return split(2, x({n, 4}), x({n, 4})); };
  EXPECT_EQ(outcomes(ranks, {both(3), both(5), both(7), both(3)}),
            (Texts{"compiled 0", "compiled 1", "reused 1", "reused 0"}));
}

TEST(UpstreamRow19, ExclusionAccumulation_TheMostSpecificGraphThatFitsRuns) {
  VirtualRanks ranks(2);
  const auto both = [](std::int64_t n, std::int64_t m) { return split(2, x({n, m}), x({n, m})); };
  EXPECT_EQ(outcomes(ranks, {both(3, 4), both(5, 4), both(3, 19), both(5, 4), both(3, 4)}),
            (Texts{"compiled 0", "compiled 1", "compiled 2", "reused 1", "reused 0"}));
}

TEST(UpstreamRow22, Ints_TheOldValueGoesToTheOldGraph) {
  VirtualRanks ranks(1);
  const auto n = [](std::int64_t v) { return std::vector<Inputs>{Inputs().integer("n", v)}; };
  EXPECT_EQ(outcomes(ranks, {n(3), n(5), n(3)}), (Texts{"compiled 0", "compiled 1", "reused 0"}));
}

TEST(UpstreamRow24, StoredProfile_IsDynamicAtTheFirstCompile) {
  VirtualRanks first(1);
  EXPECT_EQ(outcomes(first, {{x({2, 3})}, {x({2, 4})}}), (Texts{"compiled 0", "compiled 1"}));
  VirtualRanks second(1);
  second.frame(0).adopt(first.frame(0).state);
  EXPECT_EQ(outcomes(second, {{x({2, 5})}, {x({2, 6})}}), (Texts{"compiled 0", "reused 0"}));
}

// What upstream's tests leave out.

TEST(UpstreamMissing, ThreeOrMoreRanks_EachOfAnotherSize_CompileOnce) {
  for (const int size : {3, 4, 7, 16, 33}) {
    SCOPED_TRACE(size);
    VirtualRanks ranks(size);
    const auto jagged = [size](int call) {
      std::vector<Inputs> all;
      for (int r = 0; r < size; ++r) all.push_back(x({2 + (r * 5 + call * 3) % 11, 10}));
      return all;
    };
    EXPECT_EQ(outcomes(ranks, {jagged(0), jagged(1), jagged(2)}),
              (Texts{"compiled 0", "reused 0", "reused 0"}));
    EXPECT_EQ(decided(ranks, 0), "x: f32[s0, 10] | s0 = x.size(0) min 2 hint 2");
  }
}

TEST(UpstreamMissing, SizeOneOnOneRank_IsASizeLikeAnyOther) {
  at_each_size([](int size) {
    VirtualRanks ranks(size);
    EXPECT_EQ(
        outcomes(ranks, {split(size, x({1, 10}), x({6, 10})), split(size, x({6, 10}), x({1, 10})),
                         split(size, x({0, 10}), x({1, 10}))}),
        (Texts{"compiled 0", "reused 0", "reused 0"}));
    // One symbol without the bound of two, its hint from a rank that has two or more.
    EXPECT_EQ(decided(ranks, 0), "x: f32[s0, 10] | s0 = x.size(0) min 0 hint 6");
  });
}

TEST(UpstreamMissing, DifferingProfilesPerRank_AreJoinedBeforeTheFirstDecision) {
  at_each_size([](int size) {
    VirtualRanks earlier(1), ranks(size);
    outcomes(earlier, {{x({2, 3})}, {x({2, 4})}});
    ranks.frame(size - 1).adopt(earlier.frame(0).state);  // the others start with nothing
    const std::vector<Inputs> same(static_cast<std::size_t>(size), x({2, 5}));
    EXPECT_EQ(outcomes(ranks, {same, std::vector<Inputs>(same.size(), x({2, 6}))}),
              (Texts{"compiled 0", "reused 0"}));
    EXPECT_EQ(decided(ranks, 0), "x: f32[2, s0] | s0 = x.size(1) min 2 hint 5");
  });
}

TEST(UpstreamMissing, MarkOnOneRankOnly_HoldsForAll) {
  at_each_size([](int size) {
    const Inputs plain = x({5, 10});
    VirtualRanks dynamic(size);
    EXPECT_EQ(outcomes(dynamic, {split(size, plain, x({5, 10}).mark("x", 0, Mark::Dynamic)),
                                 split(size, x({7, 10}), x({9, 10}))}),
              (Texts{"compiled 0", "reused 0"}));
    EXPECT_EQ(decided(dynamic, 0), "x: f32[s0, 10] | s0 = x.size(0) pinned min 2 hint 5");
    // Static on one rank: the others may not differ from it.
    VirtualRanks fixed(size);
    const Inputs stays = x({5, 10}).mark("x", 0, Mark::Static);
    const Status differs = fixed.joint(split(size, stays, x({6, 10}))).error.value_or(Status{});
    EXPECT_EQ(differs.code, Code::ConstraintViolation);
    EXPECT_EQ(differs.source, "x.size(0)");
    const Status contradiction =
        fixed.joint(split(size, stays, x({5, 10}).mark("x", 0, Mark::Dynamic)))
            .error.value_or(Status{});
    EXPECT_EQ(contradiction.code, Code::MarkConflict);
    ASSERT_EQ(contradiction.groups.size(), 2U);
    EXPECT_EQ(contradiction.groups[0].value, "static");
    EXPECT_EQ(contradiction.groups[1].value, "dynamic");
    EXPECT_EQ(outcomes(fixed, {split(size, stays, plain)}), (Texts{"compiled 0"}));
  });
}

TEST(UpstreamMissing, SkipOnOneRank_IsAnErrorThatNamesBothFrames_AndTheNextCallWorks) {
  at_each_size([](int size) {
    VirtualRanks ranks(size);
    Texts frames(static_cast<std::size_t>(size), "step");
    frames.back() = "evaluate";  // it skipped "step"
    const std::vector<Inputs> inputs(frames.size(), x({5}));
    for (const CallOutcome& outcome : ranks.call(frames, inputs)) {
      ASSERT_TRUE(outcome.error);
      EXPECT_EQ(outcome.error->code, Code::FrameMismatch);
      ASSERT_EQ(outcome.error->groups.size(), 2U);
      EXPECT_EQ(outcome.error->groups[0].value, "step");
      EXPECT_EQ(outcome.error->groups[1],
                (RankValue{RankSet::of({size - 1}), std::string("evaluate")}));
    }
    for (const CallOutcome& outcome : ranks.call(Texts(frames.size(), "step"), inputs))
      EXPECT_EQ(outcome_text(outcome), "compiled 0");
  });
}

TEST(UpstreamMissing, TwoFramesInOppositeOrders_AreAnErrorEachTime_AndThenWork) {
  at_each_size([](int size) {
    VirtualRanks ranks(size);
    const auto n = static_cast<std::size_t>(size);
    Texts forth(n, "a"), back(n, "b");
    forth[0] = "b", back[0] = "a";
    const std::vector<Inputs> inputs(n, x({5}));
    for (const Texts& frames : {forth, back})
      for (const CallOutcome& outcome : ranks.call(frames, inputs)) {
        ASSERT_TRUE(outcome.error);
        EXPECT_EQ(outcome.error->code, Code::FrameMismatch);
      }
    for (const char* name : {"a", "b"})
      for (const CallOutcome& outcome : ranks.call(Texts(n, name), inputs))
        EXPECT_EQ(outcome_text(outcome), "compiled 0") << name;
  });
}

TEST(UpstreamMissing, LimitReached_IsReachedByAllAtOnce) {
  at_each_size([](int size) {
    VirtualRanks ranks(size, {.automatic_dynamic = false, .recompile_limit = 2, .settle = false});
    // Rank 0 alone sees new sizes: alone it would be the only one at its limit.
    EXPECT_EQ(outcomes(ranks, {split(size, x({2}), x({2})), split(size, x({3}), x({3})),
                               split(size, x({4}), x({3})), split(size, x({3}), x({3}))}),
              (Texts{"compiled 0", "compiled 1", "fallback", "reused 1"}));
  });
}

TEST(UpstreamMissing, ExceptionMidTrace_IsEverybodysError_AndTheNextCallWorks) {
  at_each_size([](int size) {
    VirtualRanks ranks(size);
    const auto plain = ranks.tracer;
    ranks.tracer = [&](Rank rank, const Decision& decision) {
      TraceReport report = plain(rank, decision);
      if (rank.value == size - 1) report.failure = Status{Code::TraceError, "no tokenizer", "", {}};
      return report;
    };
    const auto inputs = split(size, x({5}), x({6}));
    const Status error = ranks.joint(inputs).error.value_or(Status{});
    EXPECT_EQ(error.code, Code::TraceError);
    EXPECT_EQ(error.message, "f: failed on rank " + std::to_string(size - 1) + ": no tokenizer");
    EXPECT_TRUE(ranks.frame(0).entries.empty());
    ranks.tracer = plain;
    EXPECT_EQ(outcomes(ranks, {inputs}), (Texts{"compiled 0"}));
  });
}

TEST(UpstreamMissing, EqualDims_AreNotTakenForOneSymbol) {
  at_each_size([](int size) {
    const Inputs square = x({4, 4}).mark("x", 0, Mark::Dynamic).mark("x", 1, Mark::Dynamic);
    VirtualRanks ranks(size);
    EXPECT_EQ(outcomes(ranks, {std::vector<Inputs>(static_cast<std::size_t>(size), square),
                               split(size, x({4, 6}), x({5, 3}))}),
              (Texts{"compiled 0", "reused 0"}));
    EXPECT_EQ(
        decided(ranks, 0),
        "x: f32[s0, s1] | s0 = x.size(0) pinned min 2 hint 4, s1 = x.size(1) pinned min 2 hint 4");
  });
}

}  // namespace
}  // namespace lockstep::worker::upstream_test
