// Operations, the issuer and waits that cannot end, on posts in plain memory, and their simulation
// and on those of real processes.
#include <cstdlib>
#include <string>

#include "plain_posts.h"
#include "simulation.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lockstep/collectives/lines/issuer.h>
#include <lockstep/collectives/lines/wait_ring.h>

namespace lockstep::lines {
namespace {

using lockstep::tests::PlainPosts;
using lockstep::tests::PlainWorld;
using lockstep::tests::RunOutcome;
using lockstep::tests::simulate;

Group pair_of(int self) {
  return Group{LineKey{1, 2}, {Rank{0}, Rank{1}}, self, "the group of ranks 0-1"};
}

struct Sizes {
  std::vector<std::int64_t> elements, shape;
};

Operation all_reduce(const Sizes& sizes, std::string_view place = "train.py:41") {
  return {.kind = "all_reduce",
          .dtype = "f32",
          .reduction = "sum",
          .elements = sizes.elements,
          .shape = sizes.shape,
          .place = place};
}

Entry entry(const Operation& operation) {
  Entry out;
  out.posted.equal = digest_of(operation);
  out.posted.root = operation.root;
  out.posted.to = static_cast<std::uint32_t>(operation.to.size());
  out.posted.from = static_cast<std::uint32_t>(operation.from.size());
  out.values.assign(operation.to.begin(), operation.to.end());
  out.values.insert(out.values.end(), operation.from.begin(), operation.from.end());
  return out;
}

TEST(Operation, AnotherShapeOfAsManyElements_Fits) {
  EXPECT_TRUE(fits(entry(all_reduce({{8}, {8}})), 0, entry(all_reduce({{8}, {2, 4}})), 1));
  EXPECT_FALSE(fits(entry(all_reduce({{8}, {8}})), 0, entry(all_reduce({{6}, {6}})), 1));
}

TEST(Operation, EachThingThatMustBeEqual_Counts) {
  const std::vector<std::int64_t> eight{8}, two{8, 8};
  const Operation one{.kind = "broadcast", .dtype = "f32", .root = 0, .elements = eight};
  Operation other = one;
  EXPECT_TRUE(fits(entry(one), 0, entry(other), 1));
  other.kind = "reduce";
  EXPECT_FALSE(fits(entry(one), 0, entry(other), 1));
  other = one, other.dtype = "i32";
  EXPECT_FALSE(fits(entry(one), 0, entry(other), 1));
  other = one, other.root = 1;
  EXPECT_FALSE(fits(entry(one), 0, entry(other), 1));
  other = one, other.reduction = "max";
  EXPECT_FALSE(fits(entry(one), 0, entry(other), 1));
  other = one, other.elements = two;
  EXPECT_FALSE(fits(entry(one), 0, entry(other), 1));
}

TEST(Operation, SplitsOfAnExchange_AreComparedWithEachPeersOwn) {
  const std::vector<std::int64_t> to0{1, 3}, from0{1, 5}, to1{5, 2}, from1{3, 2}, wrong{4, 2};
  const auto exchange = [](const auto& to, const auto& from) {
    return entry({.kind = "all_to_all_single", .dtype = "f32", .to = to, .from = from});
  };
  EXPECT_TRUE(fits(exchange(to0, from0), 0, exchange(to1, from1), 1));
  EXPECT_FALSE(fits(exchange(to0, from0), 0, exchange(to1, wrong), 1));
  EXPECT_FALSE(fits(exchange(to1, wrong), 1, exchange(to0, from0), 0));
}

TEST(Operation, GatherToARoot_ComparesWhatItTakesOfEach) {
  const std::vector<std::int64_t> all{4, 7}, four{4}, seven{7};
  const auto root = entry({.kind = "gather", .dtype = "f32", .root = 0, .from = all});
  const auto sends = [](const auto& elements) {
    return entry({.kind = "gather", .dtype = "f32", .root = 0, .to = elements});
  };
  EXPECT_TRUE(fits(root, 0, sends(seven), 1));
  EXPECT_FALSE(fits(root, 0, sends(four), 1));
  EXPECT_TRUE(fits(sends(four), 1, sends(seven), 2)) << "neither is the root";
}

TEST(Operation, SendAndReceive_FitByDtypeAndElements) {
  const std::vector<std::int64_t> four{4}, five{5};
  const auto side = [](std::string_view kind, const auto& elements) {
    return entry({.kind = kind, .dtype = "f32", .root = 0, .paired = true, .elements = elements});
  };
  EXPECT_TRUE(fits(side("send", four), 0, side("receive", four), 1));
  EXPECT_FALSE(fits(side("send", four), 0, side("receive", five), 1));
}

TEST(Issuer, RankThatComesSecond_Refuses_AndTheFirstHearsOfIt) {
  PlainWorld world(2);
  PlainPosts first(world, Rank{0}), second(world, Rank{1});
  Issuer a(first), b(second);
  ASSERT_TRUE(a.issue(pair_of(0), all_reduce({{5}, {5}})))
      << "nobody to compare with: it does not wait";
  const auto refused = b.issue(pair_of(1), all_reduce({{3}, {3}}, "train.py:57"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::GraphDivergence);
  EXPECT_EQ(refused.error().message,
            "operation 1 of the group of ranks 0-1 is not the same on its ranks, and cannot "
            "complete: end "
            "the job [rank 0: all_reduce sum f32[5] at "
            "train.py:41; rank 1: all_reduce sum f32[3] at train.py:57]");
  const auto alive = a.still_alive(pair_of(0));
  ASSERT_FALSE(alive);
  EXPECT_EQ(alive.error().message, refused.error().message);
  EXPECT_FALSE(a.issue(pair_of(0), all_reduce({{4}, {4}}))) << "the group is dead";
}

TEST(Issuer, Refusal_NamesRanksThatHaveIssuedNothingYet) {
  PlainWorld world(4);
  PlainPosts first(world, Rank{0}), second(world, Rank{1});
  Issuer a(first), b(second);
  Group mine = pair_of(0), theirs = pair_of(1);
  mine.members = theirs.members = {Rank{0}, Rank{1}, Rank{2}, Rank{3}};
  ASSERT_TRUE(a.issue(mine, all_reduce({{5}, {5}})));
  const auto refused = b.issue(theirs, all_reduce({{3}, {3}}, "train.py:57"));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message,
              testing::HasSubstr("at train.py:57; ranks 2-3: nothing yet]"));
}

TEST(Issuer, BothPostBeforeEitherLooks_BothRefuse_InTheSameWords) {
  PlainWorld world(2);
  PlainPosts first(world, Rank{0}), second(world, Rank{1});
  Issuer a(first), b(second);
  const auto one = a.post(pair_of(0), all_reduce({{5}, {5}}));
  const auto two = b.post(pair_of(1), all_reduce({{3}, {3}}));
  ASSERT_TRUE(one && two);
  const auto second_said = b.check(pair_of(1), *two), first_said = a.check(pair_of(0), *one);
  ASSERT_FALSE(first_said);
  ASSERT_FALSE(second_said);
  EXPECT_EQ(first_said.error().message, second_said.error().message);
}

TEST(Issuer, RanksOfADeadGroup_GoOnInAnother) {
  PlainWorld world(2);
  PlainPosts first(world, Rank{0}), second(world, Rank{1});
  Issuer a(first), b(second);
  ASSERT_TRUE(a.issue(pair_of(0), all_reduce({{5}, {5}})));
  ASSERT_FALSE(b.issue(pair_of(1), all_reduce({{3}, {3}})));
  Group other = pair_of(0), others = pair_of(1);
  other.key.low = others.key.low = 3;
  EXPECT_TRUE(a.issue(other, all_reduce({{5}, {5}})));
  EXPECT_TRUE(b.issue(others, all_reduce({{5}, {5}})));
}

WaitMoment two_ranks_in_two_groups() {
  const LineKey a{1, 1}, b{2, 2};
  WaitMoment moment;
  moment.ranks[Rank{0}].waits = {{{a, 0}, {Rank{1}}}};
  moment.ranks[Rank{1}].waits = {{{b, 0}, {Rank{0}}}};
  moment.counts = {{{a, Rank{0}}, {1, 1}}, {{b, Rank{1}}, {1, 1}}};
  return moment;
}

TEST(FindBlocked, TwoGroupsInAnotherOrder_AreARing) {
  const auto blocked = find_blocked(two_ranks_in_two_groups());
  ASSERT_EQ(blocked.size(), 2U);
  EXPECT_EQ(blocked[0].by, Rank{1});
  EXPECT_EQ(blocked[1].by, Rank{0});
}

TEST(FindBlocked, RankWithAThreadThatIsFree_IsNot) {
  WaitMoment moment = two_ranks_in_two_groups();
  moment.ranks[Rank{1}].has_free_thread = true;
  EXPECT_TRUE(find_blocked(moment).empty());
}

TEST(FindBlocked, NewLineOfARankWithOtherThreads_ProvesNothing) {
  WaitMoment moment = two_ranks_in_two_groups();
  moment.ranks[Rank{1}].has_threads_beside = true;
  EXPECT_TRUE(find_blocked(moment).empty());
}

TEST(FindBlocked, PeerThatHasCome_HoldsNobodyUp) {
  WaitMoment moment = two_ranks_in_two_groups();
  moment.counts[{LineKey{1, 1}, Rank{1}}] = {1, 0};
  EXPECT_TRUE(find_blocked(moment).empty());
}

TEST(FindBlocked, RankThatHasEnded_IsNotToCome) {
  WaitMoment moment = two_ranks_in_two_groups();
  moment.ranks[Rank{1}] = {};
  moment.ranks[Rank{1}].state = PeerState::Finished;
  const auto blocked = find_blocked(moment);
  ASSERT_EQ(blocked.size(), 1U);
  EXPECT_EQ(blocked[0].rank, Rank{0});
  EXPECT_EQ(blocked[0].by, Rank{1});
}

TEST(FindBlocked, RankThatEndedBetweenPostAndIssue_IsNotToCome) {
  WaitMoment moment = two_ranks_in_two_groups();
  moment.ranks[Rank{1}] = {};
  moment.ranks[Rank{1}].state = PeerState::Lost;
  moment.counts[{LineKey{1, 1}, Rank{1}}] = {1, 0};
  EXPECT_EQ(find_blocked(moment).size(), 1U);
  moment.counts[{LineKey{1, 1}, Rank{1}}] = {1, 1};
  EXPECT_TRUE(find_blocked(moment).empty()) << "its part is on its way";
}

TEST(FindBlocked, RankThatIsNotNeeded_HoldsNobodyUp) {
  WaitMoment moment = two_ranks_in_two_groups();
  moment.ranks[Rank{0}].waits[0].needed = {};
  EXPECT_TRUE(find_blocked(moment).empty());
}

constexpr Instant kNow = std::chrono::seconds(100);

/// Rank 0 waits for rank 1, and rank 1 for rank 2, which neither waits nor is known to move on.
WaitMoment chain_of_waits() {
  const LineKey a{1, 1}, b{2, 2};
  WaitMoment moment;
  moment.ranks[Rank{0}].waits = {{{a, 0}, {Rank{1}}}};
  moment.ranks[Rank{1}].waits = {{{b, 0}, {Rank{2}}}};
  moment.ranks[Rank{2}].alive_until = kNow - Duration{1};
  moment.counts = {{{a, Rank{0}}, {1, 1}}, {{b, Rank{1}}, {1, 1}}};
  return moment;
}

TEST(SeenAgain, RankOfAnotherHost_HasToBeSeenAsItWasAfterTheFirstLook) {
  const auto at = [](std::uint64_t heard) {
    WaitMoment moment;
    moment.ranks[Rank{0}].waits = {{{{1, 1}, 0}, {Rank{1}}}};
    moment.ranks[Rank{0}].heard = heard;
    moment.ranks[Rank{1}].state = PeerState::Gone;
    return moment;
  };
  BlockedSeen seen;
  EXPECT_FALSE(seen_again(seen, at(5), Instant{1}, 5)) << "once";
  EXPECT_FALSE(seen_again(seen, at(5), Instant{2}, 6)) << "what is seen is of before";
  EXPECT_EQ(seen.since, Instant{1});
  EXPECT_TRUE(seen_again(seen, at(6), Instant{3}, 7));
  WaitMoment moved = at(9);
  moved.ranks[Rank{0}].moves = 1;
  EXPECT_FALSE(seen_again(seen, moved, Instant{4}, 8));
  EXPECT_EQ(seen.since, Instant{4});
}

TEST(FindSilent, RankAtTheEndOfTheChain_IsNamed) {
  const WaitMoment moment = chain_of_waits();
  EXPECT_EQ(find_silent(moment, moment.ranks.at(Rank{0}).waits[0], kNow), Rank{2});
}

TEST(FindSilent, RankThatMovesOn_AndOneThatIsNotSeen_AreWaitedFor) {
  WaitMoment moment = chain_of_waits();
  const auto wait = moment.ranks[Rank{0}].waits[0];
  moment.ranks[Rank{2}].alive_until = kNow;
  EXPECT_EQ(find_silent(moment, wait, kNow), std::nullopt) << "it moves on";
  moment.ranks.erase(Rank{2});
  EXPECT_EQ(find_silent(moment, wait, kNow), std::nullopt) << "it is not seen";
}

// DDP's reducer waits where nobody sees it.
TEST(FindSilent, RankThatHasIssuedWhatOthersHaveNot_MayWaitForThem) {
  WaitMoment moment = chain_of_waits();
  const auto wait = moment.ranks[Rank{0}].waits[0];
  moment.ranks[Rank{1}].waits = {};
  moment.ranks[Rank{1}].ahead_of = {Rank{2}};
  EXPECT_EQ(find_silent(moment, wait, kNow), Rank{2});
  moment.ranks[Rank{2}].alive_until = kNow;
  EXPECT_EQ(find_silent(moment, wait, kNow), std::nullopt);
  moment.ranks[Rank{1}].ahead_of = {};
  EXPECT_EQ(find_silent(moment, wait, kNow), Rank{1}) << "it waits for nobody";
}

std::uint64_t runs() {
  const char* said = std::getenv("LOCKSTEP_LINES_RUNS");
  return said == nullptr ? 4000 : std::strtoull(said, nullptr, 10);
}

TEST(LinesSimulation, HealthyPrograms_EndAsWithout) {
  for (std::uint64_t seed = 0; seed < runs(); ++seed) {
    const RunOutcome outcome = simulate(seed, false);
    ASSERT_EQ(outcome.wrong, "") << "seed " << seed;
    ASSERT_TRUE(outcome.all_ended) << "seed " << seed;
  }
}

TEST(LinesSimulation, NoUnequalPairingIsDelivered_AndWhoWaitsIsNamed) {
  std::uint64_t refusals = 0, rings = 0;
  for (std::uint64_t seed = 0; seed < runs(); ++seed) {
    const RunOutcome outcome = simulate(seed, true);
    ASSERT_EQ(outcome.wrong, "") << "seed " << seed;
    refusals += outcome.refused ? 1 : 0;
    rings += outcome.blocked ? 1 : 0;
  }
  EXPECT_GT(refusals, runs() / 10) << "the faults bite";
  EXPECT_GT(rings, runs() / 50) << "the faults bite";
}

TEST(LinesSimulation, HealthyProgramsOnSeveralHosts_EndAsWithout_WhateverTheLag) {
  for (std::uint64_t seed = 0; seed < runs(); ++seed) {
    const RunOutcome outcome = simulate(seed, false, 4);
    ASSERT_EQ(outcome.wrong, "") << "seed " << seed;
    ASSERT_TRUE(outcome.all_ended) << "seed " << seed;
  }
}

TEST(LinesSimulation, OnSeveralHosts_WhatALagLetsThroughIsRefusedAfterIt_AndWhoWaitsIsNamed) {
  std::uint64_t refusals = 0, rings = 0;
  for (std::uint64_t seed = 0; seed < runs(); ++seed) {
    const RunOutcome outcome = simulate(seed, true, 4);
    ASSERT_EQ(outcome.wrong, "") << "seed " << seed;
    refusals += outcome.refused ? 1 : 0;
    rings += outcome.blocked ? 1 : 0;
  }
  EXPECT_GT(refusals, runs() / 10) << "the faults bite";
  EXPECT_GT(rings, runs() / 50) << "the faults bite";
}

}  // namespace
}  // namespace lockstep::lines
