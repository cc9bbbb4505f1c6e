#include <algorithm>
#include <chrono>
#include <random>
#include <string>

#include "census_tree.h"
#include "network.h"

#include <lockstep/collectives/simulated/simulated_events.h>
#include <lockstep/collectives/startup.h>
#include <lockstep/collectives/tree.h>
#include <lockstep/collectives/vote.h>

namespace lockstep::collectives::simulated_test {
namespace {

using namespace std::chrono_literals;

std::vector<VoteRound> votes(int n) {
  std::vector<VoteRound> rounds;
  for (int r = 0; r < n; ++r) rounds.emplace_back(Rank{r}, n, Vote::of(1, 2, 3, 4));
  return rounds;
}

/// Starts votes on all ranks but those in `absent`, then steps to the end.
void vote_without(VirtualNetwork& network, std::vector<VoteRound>& rounds, const RankSet& absent) {
  for (int r = 0; r < network.size(); ++r)
    if (!absent.contains(Rank{r}))
      network.communicator(Rank{r}).start(rounds[static_cast<std::size_t>(r)]);
  while (network.step()) {
  }
}

std::vector<std::string> logged_run(std::uint64_t seed) {
  VirtualNetwork network({.size = 13, .seed = seed, .record = true});
  network.crash(Rank{5}, 60us);
  for (int call = 0; call < 3; ++call) {
    auto rounds = votes(13);
    vote_without(network, rounds, {});
  }
  return network.log();
}

TEST(VirtualNetwork, SameSeed_SameLog) {
  const auto log = logged_run(42);
  EXPECT_GT(log.size(), 100u);
  EXPECT_EQ(log, logged_run(42));
  EXPECT_NE(log, logged_run(43));
}

TEST(VirtualNetwork, AbsentRank_WaitersFailWithStuckNamingIt) {
  VirtualNetwork network({.size = 6, .deadline = 10s});
  network.note(Rank{4}, "reads the next batch");
  auto rounds = votes(6);
  vote_without(network, rounds, RankSet::of(Rank{4}));
  EXPECT_GT(network.clock().now(), 10s);
  EXPECT_LT(network.clock().now(), 11s);
  for (int r = 0; r < 6; ++r) {
    if (r == 4) continue;
    const auto done = network.communicator(Rank{r}).poll();
    ASSERT_FALSE(done.has_value()) << "rank " << r;
    EXPECT_EQ(done.error().code, Code::Stuck);
    EXPECT_NE(done.error().message.find("Rank 4 did not come to operation 1 (vote)"),
              std::string::npos)
        << done.error().text();
    EXPECT_NE(done.error().text().find(
                  "rank 4: in no operation yet, starting, last event: reads the next batch"),
              std::string::npos)
        << done.error().text();
  }
}

TEST(VirtualNetwork, CrashedRank_WaitersFailWithRankLost) {
  VirtualNetwork network({.size = 5});
  network.crash(Rank{2}, 0us);
  while (network.step()) {
  }
  auto rounds = votes(5);
  vote_without(network, rounds, {});
  EXPECT_LE(network.clock().now(), 101ms);
  const auto done = network.communicator(Rank{0}).poll();
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code, Code::RankLost);
  EXPECT_NE(done.error().message.find("Rank 2 ended"), std::string::npos) << done.error().text();
}

TEST(VirtualNetwork, StoppedRank_WaitersFailWithStuckSayingSuspended) {
  VirtualNetwork network({.size = 4, .deadline = 2s});
  network.stop(Rank{1}, 0us);
  auto rounds = votes(4);
  vote_without(network, rounds, {});
  const auto done = network.communicator(Rank{3}).poll();
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code, Code::Stuck);
  EXPECT_NE(done.error().message.find("Rank 1 is suspended"), std::string::npos)
      << done.error().text();
}

TEST(VirtualNetwork, RankStoppedForLessThanTheDeadline_NothingFails) {
  VirtualNetwork network({.size = 4, .deadline = 2s});
  network.stop(Rank{1}, 0us, 1900ms);
  auto rounds = votes(4);
  run_all(network, rounds);
  EXPECT_GE(network.clock().now(), 1900ms);
}

TEST(VirtualNetwork, RankThatNotesProgress_KeepsTheOthersWaiting) {
  VirtualNetwork network({.size = 3, .deadline = 10s});
  auto rounds = votes(3);
  for (int s = 8; s <= 80; s += 8)
    network.call_at(std::chrono::seconds(s), [&] { network.note(Rank{1}, "compiles"); });
  network.call_at(85s, [&] { network.communicator(Rank{1}).start(rounds[1]); });
  vote_without(network, rounds, RankSet::of(Rank{1}));
  for (int r = 0; r < 3; ++r) {
    const auto done = network.communicator(Rank{r}).poll();
    ASSERT_TRUE(done.has_value()) << done.error().text();
    EXPECT_TRUE(*done);
  }
}

TEST(VirtualNetwork, SlowRank_OnlyTakesLonger) {
  VirtualNetwork network({.size = 8});
  network.slow(Rank{7}, 5ms);
  auto rounds = votes(8);
  run_all(network, rounds);
  EXPECT_GE(network.clock().now(), 5ms);
}

TEST(VirtualNetwork, VoteMeetsExchange_BothSidesLearnIt) {
  VirtualNetwork network({.size = 2});
  VoteRound vote(Rank{0}, 2, Vote{});
  TreeRound tree(Rank{1}, 2, {}, join_census);
  network.communicator(Rank{0}).start(vote);
  network.communicator(Rank{1}).start(tree);
  while (network.step()) {
  }
  const auto done = network.communicator(Rank{0}).poll();
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code, Code::Internal);
  EXPECT_NE(done.error().message.find("Rank 1 is in an exchange while rank 0 is in a vote"),
            std::string::npos);
}

TEST(VirtualNetwork, DifferentCollectives_AllRanksGetTheTable) {
  VirtualNetwork network({.size = 3});
  float send[3] = {}, receive[3] = {};
  for (int r = 0; r < 3; ++r) {
    const auto kind = r == 1 ? Collective::Kind::AllGather : Collective::Kind::AllReduce;
    ASSERT_TRUE(network.communicator(Rank{r}).start(
        Collective{.kind = kind, .send = send, .receive = receive, .rows = 1}));
  }
  for (int r = 0; r < 3; ++r) {
    const auto done = network.communicator(Rank{r}).poll();
    ASSERT_FALSE(done.has_value());
    EXPECT_EQ(
        done.error().text(),
        "INTERNAL: Ranks met in different collectives. [ranks 0,2: all_reduce sum of f32, 1 rows, "
        "1 "
        "elements per row; rank 1: all_gather_into_tensor of f32, 1 rows, 1 elements per row]");
  }
}

TEST(FailureMode22, SplitListsThatDoNotFit_AllRanksLearnWhich) {
  VirtualNetwork network({.size = 2});
  float send[4] = {}, receive[4] = {};
  const std::int64_t one[2] = {1, 1}, off[2] = {1, 2};
  ASSERT_TRUE(network.communicator(Rank{0}).start(Collective{.kind = Collective::Kind::AllToAll,
                                                             .send = send,
                                                             .receive = receive,
                                                             .send_rows = one,
                                                             .receive_rows = one}));
  ASSERT_TRUE(network.communicator(Rank{1}).start(Collective{.kind = Collective::Kind::AllToAll,
                                                             .send = send,
                                                             .receive = receive,
                                                             .send_rows = off,
                                                             .receive_rows = one}));
  for (int r = 0; r < 2; ++r) {
    const auto done = network.communicator(Rank{r}).poll();
    ASSERT_FALSE(done.has_value());
    EXPECT_NE(done.error().message.find("rank 1 sends 2 rows to rank 1, which expects 1"),
              std::string::npos);
  }
}

TEST(VirtualNetwork, WaitOfOneRankAlone_EndsInsteadOfHanging) {
  VirtualNetwork network({.size = 2, .deadline = 5s});
  VoteRound vote(Rank{0}, 2, Vote{});
  const auto done = network.communicator(Rank{0}).run(vote);
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code, Code::Stuck);
}

/// A vote of each member of `members`, started on the ranks that are not in `absent`.
std::vector<VoteRound> group_votes(VirtualNetwork& network, const RankSet& members,
                                   const RankSet& absent = {}) {
  std::vector<VoteRound> rounds;
  rounds.reserve(static_cast<std::size_t>(members.size()));
  for (int r = 0; r < network.size(); ++r) {
    if (!members.contains(Rank{r})) continue;
    Communicator& group = network.communicator(Rank{r}, members);
    rounds.emplace_back(group.rank(), group.size(), Vote::of(1u << r, 2, 3, 4), Combine::Min);
    if (!absent.contains(Rank{r})) group.start(rounds.back());
  }
  return rounds;
}

TEST(VirtualNetwork, OverlappingGroups_VoteAtTheSameTimeEachForItself) {
  VirtualNetwork network({.size = 5});
  auto low = group_votes(network, RankSet::range(Rank{0}, Rank{2}));
  auto high = group_votes(network, RankSet::range(Rank{2}, Rank{4}));
  auto all = group_votes(network, RankSet::all(5));
  while (network.step()) {
  }
  for (const auto& round : low) EXPECT_EQ(round.result().entries(), 1u);
  for (const auto& round : high) EXPECT_EQ(round.result().entries(), 4u);
  for (const auto& round : all) EXPECT_EQ(round.result().entries(), 1u);
  EXPECT_EQ(network.communicator(Rank{4}, RankSet::range(Rank{2}, Rank{4})).rank(), Rank{2});
}

TEST(VirtualNetwork, MessagesOfTwoGroups_OvertakeEachOther) {
  // Rank 0 votes with rank 1 in one group, then in another: the second may end first.
  int overtaken = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    VirtualNetwork network({.size = 3, .seed = seed, .record = true});
    auto first = group_votes(network, RankSet::range(Rank{0}, Rank{1}));
    auto second = group_votes(network, RankSet::all(3));
    while (network.take_ended().empty()) ASSERT_TRUE(network.step());
    if (first[0].want().need != Round::Need::Done && first[1].want().need != Round::Need::Done)
      ++overtaken;
    while (network.step()) {
    }
  }
  EXPECT_GT(overtaken, 0);
}

TEST(VirtualNetwork, RingOverGroups_IsNamedWithEveryOperation) {
  VirtualNetwork network({.size = 3, .deadline = 5s});
  const RankSet low = RankSet::range(Rank{0}, Rank{1}), high = RankSet::range(Rank{1}, Rank{2});
  RankSet outer = RankSet::of(Rank{0});
  outer.insert(RankSet::of(Rank{2}));
  auto a = group_votes(network, low, RankSet::of(Rank{1}));
  auto b = group_votes(network, high, RankSet::of(Rank{2}));
  auto c = group_votes(network, outer, RankSet::of(Rank{0}));
  while (network.step()) {
  }
  const auto done = network.communicator(Rank{0}, low).poll();
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code, Code::Stuck);
  EXPECT_NE(done.error().message.find("Ranks wait for each other"), std::string::npos)
      << done.error().text();
}

TEST(VirtualNetwork, FinishedRank_WaitersLearnAtOnceThatItWillNotCome) {
  VirtualNetwork network({.size = 3, .deadline = 60s});
  network.finish(Rank{2});
  auto rounds = votes(3);
  vote_without(network, rounds, RankSet::of(Rank{2}));
  EXPECT_LT(network.clock().now(), 1s);
  const auto done = network.communicator(Rank{0}).poll();
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code, Code::Stuck);
  EXPECT_NE(done.error().message.find("Rank 2 has finished the job and will not come"),
            std::string::npos)
      << done.error().text();
}

TEST(VirtualNetwork, ThousandRanks_VoteInMilliseconds) {
  VirtualNetwork network({.size = 1024});
  auto rounds = votes(1024);
  const auto start = std::chrono::steady_clock::now();
  run_all(network, rounds);
  const auto took = std::chrono::steady_clock::now() - start;
  RecordProperty("milliseconds",
                 std::to_string(std::chrono::duration<double, std::milli>(took).count()));
  EXPECT_LT(took, 500ms);  // About 10 ms; the bound only catches a change of order.
}

TEST(VirtualNetwork, ThousandRanksAndOneAbsent_AllFailAlikeAndSoon) {
  VirtualNetwork network({.size = 1024});
  auto rounds = votes(1024);
  const auto start = std::chrono::steady_clock::now();
  vote_without(network, rounds, RankSet::of(Rank{700}));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 2s);
  const auto first = network.communicator(Rank{0}).poll();
  ASSERT_FALSE(first.has_value());
  EXPECT_NE(first.error().message.find("Rank 700 did not come"), std::string::npos)
      << first.error().message;
  for (int r = 1; r < 1024; ++r) {
    if (r == 700) continue;
    const auto other = network.communicator(Rank{r}).poll();
    if (other.has_value()) continue;  // it had its part of the vote already
    EXPECT_EQ(other.error(), first.error());
  }
  network.communicator(Rank{700}).start(rounds[700]);
  EXPECT_EQ(network.communicator(Rank{700}).poll().error(), first.error());
}

TEST(VirtualNetwork, RanksThatWaitFromDifferentTimes_AreLookedAtSeldom) {
  VirtualNetwork network({.size = 3, .deadline = 60s, .record = true});
  auto rounds = votes(3);
  network.communicator(Rank{0}).start(rounds[0]);
  network.call_at(59s, [&] { network.communicator(Rank{1}).start(rounds[1]); });
  while (network.step()) {
  }
  EXPECT_LT(network.log().size(), 20u);
  EXPECT_FALSE(network.communicator(Rank{0}).poll().has_value());
}

/// A queue of which nothing is asked but the order.
struct NaiveEvents {
  std::vector<std::pair<std::int64_t, std::uint32_t>> all;  // when, what; in the order of posting
  std::uint32_t take() {
    const auto first = std::min_element(
        all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    const std::uint32_t what = first->second;
    all.erase(first);
    return what;
  }
};

TEST(SimulatedEvents, FewOrManyNearOrFar_ComeInTheOrderOfTimeAndPosting) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    std::mt19937_64 random(seed);
    SimulatedEvents events;
    NaiveEvents naive;
    std::int64_t now = 0;
    const std::int64_t spread = std::int64_t{1} << (seed % 20);
    std::uint32_t posted = 0;
    for (int i = 0; i < 3000; ++i) {
      const bool grow = i % 1000 < 600;
      if (naive.all.empty() || random() % 10 < (grow ? 7U : 3U)) {
        std::int64_t at =
            now + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(spread));
        if (random() % 20 == 0) at = now + 60'000'000'000;
        if (random() % 50 == 0) at = std::max<std::int64_t>(0, now - 5);
        SimulatedEvent event;
        event.at = Instant(at);
        event.what = posted;
        events.post(event, Instant(now));
        naive.all.emplace_back(at, posted++);
        continue;
      }
      const SimulatedEvent event = events.take();
      ASSERT_EQ(event.what, naive.take()) << "seed " << seed << ", event " << i;
      // As the network does with a timer that nobody waits for: the clock stays.
      if (random() % 8 != 0) now = std::max(now, event.at.count());
    }
    while (!naive.all.empty()) ASSERT_EQ(events.take().what, naive.take()) << "seed " << seed;
    EXPECT_TRUE(events.empty());
  }
}

TEST(VirtualNetwork, ARankThatSaysItIsBusy_IsWaitedForUntilThen) {
  VirtualNetwork network({.size = 2, .deadline = 60s});
  auto rounds = votes(2);
  network.lease(Rank{1}, 300s);
  network.communicator(Rank{0}).start(rounds[0]);
  network.call_at(200s, [&] { EXPECT_TRUE(network.communicator(Rank{0}).poll().has_value()); });
  while (network.step()) {
  }
  EXPECT_FALSE(network.communicator(Rank{0}).poll().has_value());
  EXPECT_GT(network.clock().now(), 360s);
  EXPECT_LT(network.clock().now(), 430s);
}

}  // namespace
}  // namespace lockstep::collectives::simulated_test
