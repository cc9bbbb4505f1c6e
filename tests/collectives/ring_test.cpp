// Rings of ranks that wait for each other: found where they are, and nowhere else.
#include <random>

#include "story.h"
#include <gtest/gtest.h>

#include <lockstep/collectives/ring.h>

namespace lockstep::collectives::ring_test {
namespace {

using namespace std::chrono_literals;
using Kind = OperationKind;

RankSet set(std::initializer_list<int> ranks) {
  RankSet out;
  for (const int r : ranks) out.insert({r, r});
  return out;
}

std::vector<int> ranks_of(const std::optional<Ring>& ring) {
  std::vector<int> out;
  if (ring)
    for (const Ring::Member& member : ring->members) out.push_back(member.rank.value);
  return out;
}

/// Groups a, b, c of ranks 0-1, 1-2 and 0,2 of a job of `size`.
Story three_groups(int size = 3) {
  Story story(size);
  story.add_group(1, set({0, 1}), "a [0-1]");
  story.add_group(2, set({1, 2}), "b [1-2]");
  story.add_group(3, set({0, 2}), "c [0,2]");
  return story;
}

/// Rank r waits in the r-th group for the next one.
Story ring_of(Kind kind, int size = 3) {
  Story story = three_groups(size);
  for (int r = 0; r < 3; ++r) story.waits(r, kind, 4, 1s, static_cast<std::uint64_t>(r + 1));
  return story;
}

TEST(Ring, OverThreeGroups_IsNamedWithOperationsGroupsAndRanks) {
  const Story story = ring_of(Kind::Vote, 4);
  const auto ring = find_ring(story.board());
  EXPECT_EQ(ranks_of(ring), (std::vector<int>{0, 1, 2}));
  const Status verdict = ring_verdict(story.board(), *ring, 2s);
  EXPECT_EQ(verdict.code, Code::Stuck);
  EXPECT_EQ(verdict.message,
            "Ranks wait for each other in a ring, so none can go on: rank 0 waits in operation 4 "
            "(vote of group a [0-1]) for rank 1; rank 1 waits in operation 4 (vote of group b "
            "[1-2]) for rank 2; rank 2 waits in operation 4 (vote of group c [0,2]) for rank 0. "
            "Make all ranks enter what they share in one order.");
  EXPECT_EQ(verdict.groups.size(), 4U);
}

TEST(Ring, WhateverTwoRanksShare_TheKindOfOperationDoesNotMatter) {
  for (const Kind kind : {Kind::Vote, Kind::Exchange, Kind::AllToAll, Kind::AllReduce,
                          Kind::AllGather, Kind::ReduceScatter, Kind::Broadcast})
    EXPECT_EQ(ranks_of(find_ring(ring_of(kind).board())).size(), 3U) << operation_name(kind);
}

TEST(Ring, OneRankComputes_IsNone) {
  for (int busy = 0; busy < 3; ++busy) {
    Story story = ring_of(Kind::AllReduce);
    story.rank(busy).waiting = false;
    EXPECT_FALSE(find_ring(story.board())) << busy;
  }
}

TEST(Ring, OneRankHasComeMeanwhile_IsNone) {
  for (int r = 0; r < 3; ++r) {
    Story story = ring_of(Kind::AllReduce);
    // Rank r has just begun what the one before it waits in.
    story.waits(r, Kind::AllReduce, 4, 2s, static_cast<std::uint64_t>((r + 2) % 3 + 1));
    EXPECT_FALSE(find_ring(story.board())) << r;
  }
}

TEST(Ring, AllHaveBegun_MessagesAreUnderWay_IsNone) {
  Story story(3);
  for (int r = 0; r < 3; ++r) story.waits(r, Kind::AllReduce, 7, 1s);
  EXPECT_FALSE(find_ring(story.board()));
}

TEST(Ring, LostOrFinishedRank_IsNobodyToWaitFor) {
  for (const bool lost : {true, false}) {
    Story story = ring_of(Kind::Vote);
    (lost ? story.rank(1).lost : story.rank(1).finished) = true;
    EXPECT_FALSE(find_ring(story.board()));
  }
}

TEST(Ring, RankOfAnotherHost_MayBeAnywhere) {
  Story story = ring_of(Kind::Broadcast);
  story.rank(2) = {};
  EXPECT_FALSE(find_ring(story.board()));
  Story told = ring_of(Kind::Broadcast);
  told.rank(2).carried = true;  // it may have moved since
  EXPECT_FALSE(find_ring(told.board()));
}

// Rank 1 gets its rows from rank 0 however long that takes; that rank 2 has not come holds nobody
// up.
TEST(Ring, BroadcastThatMayEndWithoutTheAbsentOne_IsNone) {
  for (const Kind kind : {Kind::Broadcast, Kind::AllToAll, Kind::Exchange}) {
    Story story(3);
    story.add_group(1, set({1, 2}));
    story.waits(0, kind, 5, 1s);
    story.waits(1, kind, 5, 1s);
    story.waits(2, Kind::AllReduce, 1, 1s, 1);
    EXPECT_FALSE(find_ring(story.board())) << operation_name(kind);
  }
  Story story(3);
  story.add_group(1, set({1, 2}));
  story.waits(0, Kind::AllReduce, 5, 1s);
  story.waits(1, Kind::AllReduce, 5, 1s);
  story.waits(2, Kind::AllReduce, 1, 1s, 1);
  EXPECT_EQ(ranks_of(find_ring(story.board())), (std::vector<int>{0, 1, 2}))
      << "an all_reduce needs everyone";
}

TEST(Ring, WhoWaitsForARing_IsHeldToo) {
  Story story = ring_of(Kind::Vote, 5);
  story.waits(3, Kind::AllReduce, 2, 1s);  // of the world: ranks 0 to 2 do not come
  EXPECT_EQ(ranks_of(find_ring(story.board())), (std::vector<int>{0, 1, 2, 3}));
  // The way named goes around the ring, not through its tail.
  const auto ring = find_ring(story.board());
  EXPECT_EQ(ring_verdict(story.board(), *ring, 2s).message.find("rank 3"), std::string::npos);
}

TEST(Ring, ControlAgainstDataAtOnePlace_IsOne) {
  Story story(4);
  for (const int r : {0, 1}) story.waits(r, Kind::Vote, 5, 10s);
  for (const int r : {2, 3}) story.waits(r, Kind::AllReduce, 5, 11s);
  EXPECT_EQ(ranks_of(find_ring(story.board())).size(), 4U);
  story.rank(3).waiting = false;
  EXPECT_EQ(ranks_of(find_ring(story.board())).size(), 3U) << "0 to 2 still wait for each other";
  story.waits(2, Kind::Exchange, 5, 11s);
  EXPECT_FALSE(find_ring(story.board())) << "a vote that meets an exchange says so by itself";
}

TEST(Ring, GroupWithoutARecord_IsLeftToTheDeadline) {
  Story story(2);
  for (int r = 0; r < 2; ++r) story.waits(r, Kind::Vote, 1, 1s, 99);
  EXPECT_FALSE(find_ring(story.board()));
}

TEST(Ring, SameRanksInLaterWaits_IsAnotherRing) {
  Story story = ring_of(Kind::Vote);
  const auto before = find_ring(story.board());
  EXPECT_EQ(find_ring(story.board()), before);
  for (int r = 0; r < 3; ++r) story.waits(r, Kind::Vote, 5, 2s, static_cast<std::uint64_t>(r + 1));
  EXPECT_NE(find_ring(story.board()), before);
}

// Programs on random overlapping groups, run by a naive scheduler. A ring may be found only in a
// state from which no rank of it moves any more, and wherever votes alone leave nobody else to move
// one must be found.
TEST(Ring, RandomPrograms_FoundExactlyWhereNobodyCanMove) {
  int stuck = 0, ended = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const int n = 2 + static_cast<int>(random() % 4);
    Story story(n);
    std::vector<std::vector<int>> groups;
    for (int g = 0; g < 3; ++g) {
      std::vector<int> members;
      RankSet as_set;
      for (int r = 0; r < n; ++r)
        if (random() % 3 != 0 || (r >= n - 2 && members.size() < 2)) {
          members.push_back(r);
          as_set.insert({r, r});
        }
      story.add_group(static_cast<std::uint64_t>(g + 1), as_set);
      groups.push_back(members);
    }
    // One order for all, but now and then two neighbours swapped on one rank.
    std::vector<std::vector<int>> programs(static_cast<std::size_t>(n));
    for (int step = 0; step < 6; ++step) {
      const auto g = static_cast<int>(random() % 3);
      for (const int r : groups[static_cast<std::size_t>(g)])
        programs[static_cast<std::size_t>(r)].push_back(g);
    }
    auto& odd = programs[random() % static_cast<unsigned>(n)];
    if (odd.size() > 1) std::swap(odd[0], odd[odd.size() / 2]);

    std::vector<std::size_t> at(static_cast<std::size_t>(n));
    std::vector<std::vector<std::uint64_t>> begun(3, std::vector<std::uint64_t>(at.size()));
    std::vector<bool> waits(at.size());
    for (bool moved = true; moved;) {
      moved = false;
      for (int r = 0; r < n; ++r) {
        const auto i = static_cast<std::size_t>(r);
        if (at[i] == programs[i].size()) continue;
        const auto g = static_cast<std::size_t>(programs[i][at[i]]);
        if (!waits[i]) {
          story.waits(r, Kind::Vote, ++begun[g][i], 1s, g + 1);
          waits[i] = moved = true;
        }
        bool all = true;
        for (const int m : groups[g]) all &= begun[g][static_cast<std::size_t>(m)] >= begun[g][i];
        if (!all) continue;
        waits[i] = false;
        story.rank(r).waiting = false;
        ++at[i];
        moved = true;
      }
      if (moved) continue;
      std::vector<int> held;
      for (int r = 0; r < n; ++r)
        if (waits[static_cast<std::size_t>(r)]) held.push_back(r);
      EXPECT_EQ(ranks_of(find_ring(story.board())), held);
      (held.empty() ? ended : stuck) += 1;
    }
  }
  EXPECT_GT(stuck, 50);
  EXPECT_GT(ended, 50);
}

}  // namespace
}  // namespace lockstep::collectives::ring_test
