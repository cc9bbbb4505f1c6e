// What heads do with notes: on hosts that this process holds, late and in any order among hosts.
#include <array>
#include <deque>
#include <map>
#include <random>
#include <thread>

#include "hosts.h"
#include <gtest/gtest.h>

#include <lockstep/collectives/lines/carrier.h>
#include <lockstep/collectives/lines/posts_memory.h>

namespace lockstep::lines {
namespace {

/// Heads whose notes go when a test says so.
struct Post {
  explicit Post(int hosts, int on_each = 1) : ranks(open_hosts(hosts, on_each)) {
    std::vector<std::int32_t> heads;
    for (int rank = 0; rank < hosts * on_each; ++rank) heads.push_back(rank / on_each * on_each);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
      if (heads[rank] == static_cast<std::int32_t>(rank))
        carriers.push_back(std::move(Carrier::create(ranks[rank]->posts(), 100).value()));
    for (auto& rank : ranks) EXPECT_TRUE(rank->posts().open_mirrors());
    for (auto& carrier : carriers) carrier->meet(heads);
  }
  /// The next note of this host is under way.
  void write(int from, Instant now = {}) {
    auto& carrier = *carriers[static_cast<std::size_t>(from)];
    const auto note = carrier.next(now);
    for (int to = 0; note && to < static_cast<int>(carriers.size()); ++to)
      if (to != from) under_way[{from, to}].push_back(carrier.to(other(from, to), *note));
  }
  void read(int from, int to, Instant now = {}) {
    auto& notes = under_way[{from, to}];
    if (notes.empty()) return;
    ASSERT_TRUE(carriers[static_cast<std::size_t>(to)]->came(other(to, from), notes.front(), now));
    notes.pop_front();
  }
  /// What host `of` calls this one.
  static std::size_t other(int of, int host) {
    return static_cast<std::size_t>(host < of ? host : host - 1);
  }
  void carry(Instant now = {}) {
    for (int from = 0; from < static_cast<int>(carriers.size()); ++from) write(from, now);
    for (auto& [way, notes] : under_way)
      while (!notes.empty()) read(way.first, way.second, now);
  }
  Result<std::uint64_t> issue(int rank, std::int64_t elements, std::uint64_t key = 1) {
    std::vector<Rank> all;
    for (int member = 0; member < static_cast<int>(ranks.size()); ++member)
      all.push_back(Rank{member});
    return issue(rank, elements, key, all);
  }
  Result<std::uint64_t> issue(int rank, std::int64_t elements, std::uint64_t key,
                              const std::vector<Rank>& members) {
    return lines::issue(*ranks[static_cast<std::size_t>(rank)], elements, key, members);
  }

  Ranks ranks;
  std::vector<std::unique_ptr<Carrier>> carriers;
  std::map<std::pair<int, int>, std::deque<Bytes>> under_way;
};

TEST(Carrier, RankOfAnotherHostThatCame_IsComparedBeforeTheSecondIssues) {
  Post post(2);
  ASSERT_TRUE(post.issue(0, 5));
  post.carry();
  const auto second = post.issue(1, 3);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::GraphDivergence);
  EXPECT_NE(second.error().message.find(
                "[rank 0: all_reduce sum f32[5] at train.py:7; rank 1: all_reduce sum f32[3]"),
            std::string::npos)
      << second.error().message;
  post.carry();
  const auto first = post.issue(0, 5);
  ASSERT_FALSE(first) << "the refusal has been told";
  EXPECT_EQ(first.error().message, second.error().message);
}

TEST(Carrier, WhatALagLetThrough_IsRefusedOnBothHosts_InTheSameWords) {
  Post post(2);
  ASSERT_TRUE(post.issue(0, 5));
  ASSERT_TRUE(post.issue(1, 3)) << "nothing has come yet";
  auto wait = post.ranks[0]->begin_wait(0, 0, {});
  EXPECT_TRUE(post.ranks[0]->look(wait, {}));
  post.write(0);
  post.write(1);
  post.read(0, 1);
  post.read(1, 0);
  const auto waiting = post.ranks[0]->look(wait, {});
  const auto next = post.issue(1, 3);
  ASSERT_FALSE(waiting);
  ASSERT_FALSE(next);
  EXPECT_EQ(waiting.error().code, Code::GraphDivergence);
  EXPECT_EQ(waiting.error().message, next.error().message);
  post.ranks[0]->end_wait(wait);
}

TEST(Carrier, RanksThatAreAlike_AreNeverRefused_WhateverTheLag) {
  std::mt19937_64 random(7);
  Post post(3);
  std::array<std::int64_t, 3> next{};
  for (int turn = 0; turn < 60'000; ++turn) {
    const int rank = static_cast<int>(random() % 3), other = static_cast<int>(random() % 3);
    if (random() % 2 == 0) {
      auto& at = next[static_cast<std::size_t>(rank)];
      ASSERT_TRUE(post.issue(rank, 1 + at % 5, 1 + static_cast<std::uint64_t>(at % 2)))
          << "turn " << turn;
      ++at;
    } else if (random() % 8 == 0) {
      post.write(rank);
    } else if (rank != other) {
      post.read(rank, other);
    }
  }
  post.carry();
  post.carry();
  for (auto& rank : post.ranks) EXPECT_FALSE(rank->posts().refusal({1, 1}));
}

TEST(Carrier, LongLead_ComesInPieces_IsComparedToTheEnd_AndGivenBack) {
  constexpr std::int64_t kLead = 100'000;
  Post post(2);
  for (std::int64_t i = 0; i < kLead; ++i) ASSERT_TRUE(post.issue(0, i + 1));
  const std::uint64_t held = post.ranks[0]->posts().held_bytes();
  for (int i = 0; i < 100; ++i) post.carry();
  ASSERT_EQ(post.ranks[1]->posts().count(Rank{0}, {1, 1}), static_cast<std::uint64_t>(kLead));
  for (std::int64_t i = 0; i < kLead - 1; ++i) ASSERT_TRUE(post.issue(1, i + 1)) << i;
  for (int i = 0; i < 100; ++i) post.carry();
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(kTrimEvery); ++i)
    ASSERT_TRUE(post.issue(0, 1));
  EXPECT_LT(post.ranks[0]->posts().held_bytes(), held / 2);
  for (int i = 0; i < 100; ++i) post.carry();
  EXPECT_LT(post.ranks[1]->posts().memory_of(Rank{0}).held_bytes(), 1U << 20)
      << "so does the mirror: some 250 KiB, and what has not been passed";
  EXPECT_FALSE(post.issue(1, kLead + 1)) << "the last one of the lead differs";
}

TEST(Carrier, WhoHasGonePast_HearsOfItAtItsEnd) {
  Post post(2);
  ASSERT_TRUE(post.issue(0, 5));
  ASSERT_TRUE(post.issue(1, 3));
  post.carry();
  const auto ends = post.ranks[0]->finish();
  ASSERT_FALSE(ends);
  EXPECT_EQ(ends.error().code, Code::GraphDivergence);
  EXPECT_FALSE(post.issue(1, 3)) << "it hears of it here";
  EXPECT_TRUE(post.ranks[1]->finish()) << "and is not told twice";
}

TEST(Carrier, RanksOfAHost_HaveOneHead_AndAllOfThemSeeTheOtherHost) {
  Post post(2, 2);
  ASSERT_TRUE(post.issue(0, 5));
  ASSERT_TRUE(post.issue(1, 5));
  post.carry();
  EXPECT_EQ(post.ranks[3]->posts().count(Rank{0}, {1, 1}), 1U);
  EXPECT_EQ(post.ranks[3]->posts().count(Rank{1}, {1, 1}), 1U);
  EXPECT_EQ(post.ranks[3]->posts().head(), Rank{2});
  const auto third = post.issue(3, 3);
  ASSERT_FALSE(third);
  post.carry();
  for (const int rank : {0, 1, 2}) {
    const auto said = post.issue(rank, 5);
    ASSERT_FALSE(said) << rank;
    EXPECT_EQ(said.error().message, third.error().message);
  }
}

TEST(Carrier, EntriesThatTheHostHasPassed_AreKeptUntilTheyHaveBeenCarried) {
  constexpr std::int64_t kPassed = 40'000;
  Post post(2, 2);
  const std::vector<Rank> here{Rank{0}, Rank{1}};
  for (std::int64_t i = 0; i < kPassed; ++i)
    for (const int rank : {0, 1}) ASSERT_TRUE(post.issue(rank, i + 1, 2, here));
  for (int i = 0; i < 50; ++i) post.carry();
  EXPECT_EQ(post.ranks[2]->posts().count(Rank{1}, {2, 2}), static_cast<std::uint64_t>(kPassed));
}

TEST(Carrier, RingOverHosts_IsProvenByWhatWasSentAfterItWasSeen_AndSaidByTheLowest) {
  Post post(2);
  for (const std::uint64_t key : {1U, 2U})
    for (const int rank : {0, 1}) ASSERT_TRUE(post.issue(rank, 4, key));
  std::thread other([&] {
    ASSERT_TRUE(post.issue(0, 4, 1));
    ASSERT_TRUE(post.issue(1, 4, 2));
    const Instant start = std::chrono::hours(1);
    auto a = post.ranks[0]->begin_wait(0, 2 - 1, start);
    auto b = post.ranks[1]->begin_wait(1, 2 - 1, start);
    // The thread that issued first counts too.
    const int main0 = post.ranks[0]->posts().begin_wait({{1, 1}, 1}, start);
    const int main1 = post.ranks[1]->posts().begin_wait({{2, 2}, 1}, start);
    post.carry(start);
    EXPECT_TRUE(post.ranks[0]->look(a, start));
    const Instant later = start + kProof;
    EXPECT_TRUE(post.ranks[0]->look(a, later)) << "nothing has come since";
    post.carry(later);
    EXPECT_TRUE(post.ranks[0]->look(a, later)) << "it was sent before this host's mark had come";
    post.carry(later + kAtLeastEvery);
    EXPECT_TRUE(post.ranks[1]->look(b, later)) << "rank 0 is to say it";
    const auto said = post.ranks[0]->look(a, later + kAtLeastEvery);
    ASSERT_FALSE(said);
    EXPECT_EQ(said.error().code, Code::Stuck);
    EXPECT_NE(said.error().message.find("rank 1 waits for rank 0, for 0.3 s, in operation 2 of "
                                        "group 2: all_reduce sum f32[4] at train.py:7"),
              std::string::npos)
        << said.error().message;
    post.carry(later + 2 * kAtLeastEvery);
    const auto told = post.ranks[1]->look(b, later);
    ASSERT_FALSE(told);
    EXPECT_EQ(told.error().message, said.error().message);
    post.ranks[0]->posts().end_wait(main0);
    post.ranks[1]->posts().end_wait(main1);
    post.ranks[0]->end_wait(a);
    post.ranks[1]->end_wait(b);
  });
  other.join();
}

TEST(Carrier, RankThatFailsElsewhere_FreesWhoWaitsForIt_WithItsText) {
  Post post(2);
  ASSERT_TRUE(post.issue(0, 4));
  post.ranks[1]->posts().gone("ValueError: nan");
  post.carry();
  auto wait = post.ranks[0]->begin_wait(0, 0, {});
  EXPECT_TRUE(post.ranks[0]->look(wait, {}));
  const auto said = post.ranks[0]->look(wait, kProof);
  ASSERT_FALSE(said);
  EXPECT_EQ(said.error().code, Code::Gone);
  EXPECT_TRUE(said.error().message.starts_with("rank 1 has failed: ValueError: nan ["))
      << said.error().message;
  post.ranks[0]->end_wait(wait);
}

TEST(Carrier, RankElsewhereThatHasTakenFromAny_MayHaveReceivedASend) {
  for (const bool takes_from_any : {false, true}) {
    Post post(2);
    Lines& sender = *post.ranks[0];
    const int pair = sender.group(Group{{3, 3}, {Rank{0}, Rank{1}}, 0, "a pair"});
    ASSERT_TRUE(
        sender.issue(pair, {.kind = "send", .root = 0, .needs = Needs::Receiver, .paired = true}));
    if (takes_from_any) post.ranks[1]->posts().take_from_any();
    post.ranks[1]->posts().finish();
    post.carry();
    EXPECT_EQ(sender.in_flight(pair, 0, {}).has_value(), takes_from_any);
  }
}

TEST(Carrier, RankOfWhichNothingIsHeard_IsNoEvidence) {
  Post post(2);
  post.carry();
  post.ranks[0]->deadline(std::chrono::seconds(1));
  ASSERT_TRUE(post.issue(0, 4));
  auto wait = post.ranks[0]->begin_wait(0, 0, {});
  EXPECT_TRUE(post.ranks[0]->look(wait, std::chrono::seconds(4))) << "it may have come since";
  post.carry(std::chrono::seconds(4));
  const auto said = post.ranks[0]->look(wait, std::chrono::seconds(4));
  ASSERT_FALSE(said);
  EXPECT_TRUE(said.error().message.starts_with("rank 1 does not move on")) << said.error().message;
  post.ranks[0]->end_wait(wait);
}

TEST(Carrier, NotesThatDoNotFollow_EndWhatIsKnownOfTheirHost) {
  Post post(2);
  ASSERT_TRUE(post.issue(1, 4));
  const auto note = post.carriers[1]->next({}).value();
  const Bytes bytes = post.carriers[1]->to(0, note);
  ASSERT_TRUE(post.carriers[0]->came(0, bytes, {}));
  EXPECT_EQ(post.ranks[0]->posts().state(Rank{1}), PeerState::Running);
  EXPECT_FALSE(post.carriers[0]->came(0, bytes, {})) << "the same entries again";
  EXPECT_EQ(post.ranks[0]->posts().state(Rank{1}), PeerState::Unseen);
}

TEST(Carrier, InALargeJob_ThoseNearestByRankAreHeard) {
  std::vector<Rank> unseen;
  for (int rank = 8; rank < 4096; ++rank) unseen.push_back(Rank{rank});
  const auto heard = ranks_received_by(Rank{0}, unseen, 4096);
  EXPECT_EQ(heard.front(), Rank{8});
  EXPECT_EQ(heard.back(), Rank{4095});
  EXPECT_EQ(heard.size(), static_cast<std::size_t>(kMostElsewhere - 7));
}

}  // namespace
}  // namespace lockstep::lines
