// Posts in memory that processes share: several in this process, and one in a process that is
// killed.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "hosts.h"
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep::lines {
namespace {

Group group_of(int self, std::uint64_t key = 1) {
  return Group{{key, key}, {Rank{0}, Rank{1}}, self, "group " + std::to_string(key)};
}

Result<std::uint64_t> issue(Ranks& ranks, int rank, std::int64_t elements, std::uint64_t key = 1) {
  return issue(*ranks[static_cast<std::size_t>(rank)], elements, key, {Rank{0}, Rank{1}});
}

TEST(SharedPosts, EntriesAndTheirNumbers_AreReadAcrossWindows) {
  Ranks ranks = open_hosts(1, 2);
  ASSERT_EQ(ranks[0]->posts().seen().size(), 2U);
  const int mine = ranks[0]->group(group_of(0)), theirs = ranks[1]->group(group_of(1));
  for (std::int64_t i = 0; i < 20'000; ++i) {
    const std::vector<std::int64_t> to0{i, 2 * i, 1}, from0{i, 3 * i, 1}, to1{3 * i, 1, 1},
        from1{2 * i, 1, 1};
    ASSERT_TRUE(ranks[0]->issue(mine, {.kind = "all_to_all_single", .to = to0, .from = from0}))
        << i;
    ASSERT_TRUE(ranks[1]->issue(theirs, {.kind = "all_to_all_single", .to = to1, .from = from1}))
        << i;
  }
  const std::vector<std::int64_t> to{1, 2, 3}, from{1, 2, 3}, other{1, 2, 4};
  ASSERT_TRUE(ranks[0]->issue(mine, {.kind = "all_to_all_single", .to = to, .from = from}));
  EXPECT_FALSE(ranks[1]->issue(theirs, {.kind = "all_to_all_single", .to = other, .from = from}));
}

TEST(SharedPosts, LeadOfAMillion_IsComparedToTheEnd_AndGivenBack) {
  constexpr std::int64_t kLead = 1'000'000;
  Ranks ranks = open_hosts(1, 2);
  for (std::int64_t i = 0; i < kLead; ++i) ASSERT_TRUE(issue(ranks, 0, i + 1));
  const std::uint64_t held = ranks[0]->posts().held_bytes();
  EXPECT_GT(held, kLead * sizeof(Posted));
  for (std::int64_t i = 0; i < kLead - 1; ++i) ASSERT_TRUE(issue(ranks, 1, i + 1)) << i;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(kTrimEvery); ++i)
    ASSERT_TRUE(issue(ranks, 0, 1));
  EXPECT_LT(ranks[0]->posts().held_bytes(), held / 20);
  EXPECT_LT(ranks[1]->posts().held_bytes(), held / 20);
  EXPECT_FALSE(issue(ranks, 1, kLead + 1)) << "the last one of the lead differs";
}

TEST(SharedPosts, TwoThatDifferAtTheSameTime_AreNeverBothIssued) {
  constexpr int kRounds = 3000;
  Ranks ranks = open_hosts(1, 2);
  std::atomic<int> round[2] = {0, 0};
  std::vector<int> refused[2] = {std::vector<int>(kRounds), std::vector<int>(kRounds)};
  const auto run = [&](int self) {
    for (int i = 0; i < kRounds; ++i) {
      round[self].store(i + 1);
      while (round[1 - self].load() < i + 1) {
      }
      const auto key = static_cast<std::uint64_t>(2 + i % 3000);
      refused[self][static_cast<std::size_t>(i)] =
          issue(ranks, self, 5 + self, key).has_error() ? 1 : 0;
    }
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  // The table of refusals has room for some; what counts is who issued.
  for (std::size_t i = 0; i < kRounds; ++i) ASSERT_GE(refused[0][i] + refused[1][i], 1) << i;
}

TEST(SharedPosts, TwoThatAreAlike_AreNeverRefused) {
  Ranks ranks = open_hosts(1, 2);
  std::atomic<int> wrong = 0;
  const auto run = [&](int self) {
    for (int i = 0; i < 50'000; ++i)
      if (!issue(ranks, self, i % 7, static_cast<std::uint64_t>(1 + i % 3))) ++wrong;
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  EXPECT_EQ(wrong, 0);
}

TEST(SharedPosts, WhoHasToldMore_IsAheadOfNobody) {
  Ranks ranks = open_hosts(1, 2);
  for (const int rank : {0, 1})
    for (int i = 0; i <= rank; ++i)
      ASSERT_TRUE(
          ranks[static_cast<std::size_t>(rank)]->tell({5, 5}, {.kind = i == 0 ? "frame" : "next"}));
  const WaitMoment moment = ranks[0]->posts().moment({}, {Rank{1}, Rank{0}}, true);
  EXPECT_TRUE(moment.ranks.at(Rank{0}).ahead_of.empty());
  EXPECT_TRUE(moment.ranks.at(Rank{1}).ahead_of.empty());
  EXPECT_EQ(ranks[0]->published_by(Rank{1}, {5, 5}, 0).times, 2U);
  EXPECT_EQ(ranks[0]->published_by(Rank{1}, {5, 5}, 1).texts.kind, "frame");
  EXPECT_EQ(ranks[0]->published_by(Rank{1}, {5, 5}, 2).texts.kind, "next");
  EXPECT_EQ(ranks[0]->published_by(Rank{1}, {5, 5}, 3).texts.kind, "");
  EXPECT_EQ(ranks[0]->published_by(Rank{1}, {6, 6}, 1).times, 0U);
}

TEST(SharedPosts, EqualOperationsAtOtherPlaces_AreIssuedAndToldOnce) {
  Ranks ranks = open_hosts(1, 2);
  const int mine = ranks[0]->group(group_of(0)), theirs = ranks[1]->group(group_of(1));
  const std::vector<std::int64_t> four{4};
  const auto both = [&](std::string_view here, std::string_view there, bool paired = false) {
    const auto operation = [&](std::string_view place) {
      return Operation{.kind = "all_reduce",
                       .dtype = "f32",
                       .reduction = "sum",
                       .paired = paired,
                       .elements = four,
                       .shape = four,
                       .place = place};
    };
    ASSERT_TRUE(ranks[0]->issue(mine, operation(here)));
    ASSERT_TRUE(ranks[1]->issue(theirs, operation(there)));
  };
  both("train.py:3", "train.py:3");
  both("train.py:3", "");
  both("train.py:3", "train.py:9", true);
  EXPECT_EQ(ranks[1]->apart(), 0U);
  EXPECT_EQ(ranks[1]->place_report_text(1), nullptr);
  both("train.py:3", "eval.py:7");
  both("train.py:3", "eval.py:7");
  EXPECT_EQ(ranks[0]->apart(), 0U) << "it came first, and saw nothing";
  ASSERT_EQ(ranks[1]->apart(), 1U);
  EXPECT_EQ(*ranks[1]->place_report_text(1),
            "operation 4 of group 1 is the same on its ranks, at different places of the program "
            "[rank 0: all_reduce sum f32[4] at train.py:3; rank 1: all_reduce sum f32[4] at "
            "eval.py:7]");
  both("train.py:3", "eval.py:8");
  EXPECT_EQ(ranks[1]->apart(), 2U);
}

TEST(SharedPosts, TwoThreadsOnOneGroup_LoseNoEntry) {
  Ranks ranks = open_hosts(1, 1);
  const auto run = [&] {
    for (int i = 0; i < 20'000; ++i) EXPECT_TRUE(issue(ranks, 0, 4));
  };
  std::thread other(run);
  run();
  other.join();
  EXPECT_EQ(issue(ranks, 0, 4).value(), 40'000U);
}

TEST(SharedPosts, PlaceOfAnEarlierProcess_IsNotOpened) {
  auto here = Lines::open(Rank{0}).value();
  std::string place = here->posts().place();
  const auto at = place.find('-') + 1;
  place[at] = place[at] == '1' ? '2' : '1';  // another random number
  auto lines = Lines::open(Rank{1}).value();
  lines->posts().join({place, lines->posts().place()});
  EXPECT_EQ(lines->posts().state(Rank{0}), PeerState::Unseen);
  lines->posts().join({"not a place", ""});
  EXPECT_EQ(lines->posts().seen(), std::vector<Rank>{Rank{1}});
}

TEST(Lines, RingOverTwoGroups_IsNamedOnceItIsProven_InTheSameWords) {
  Ranks ranks = open_hosts(1, 2);
  for (const std::uint64_t key : {1U, 2U})
    for (int rank : {0, 1}) ASSERT_TRUE(issue(ranks, rank, 4, key));
  std::thread second([&] {  // a thread for each rank: it counts among those that issue
    ASSERT_TRUE(issue(ranks, 1, 4, 2));
    ASSERT_TRUE(issue(ranks, 0, 4, 1));
    const Instant start = Instant{} + std::chrono::hours(1),
                  before = start - std::chrono::seconds(2);
    auto a = ranks[0]->begin_wait(ranks[0]->group(group_of(0, 1)), 1, before);
    auto b = ranks[1]->begin_wait(ranks[1]->group(group_of(1, 2)), 1, start);
    const auto main0 = ranks[0]->posts().begin_wait({{1, 1}, 1}, before),
               main1 = ranks[1]->posts().begin_wait({{2, 2}, 1}, start);
    EXPECT_TRUE(ranks[0]->look(a, start));
    EXPECT_TRUE(ranks[1]->look(b, start));
    EXPECT_TRUE(ranks[0]->look(a, start + kProof / 2)) << "not yet";
    const auto first = ranks[0]->look(a, start + kProof), other = ranks[1]->look(b, start + kProof);
    ASSERT_FALSE(first);
    ASSERT_FALSE(other);
    EXPECT_EQ(first.error().code, Code::Stuck);
    EXPECT_EQ(first.error().message, other.error().message);
    EXPECT_NE(
        first.error().message.find("rank 0 waits for rank 1, for 2.3 s, in operation 2 of group 1: "
                                   "all_reduce sum f32[4] at train.py:7; "
                                   "rank 1 waits for rank 0, for 0.3 s, in operation 2 of group 2"),
        std::string::npos)
        << first.error().message;
    ranks[0]->posts().end_wait(main0);
    ranks[1]->posts().end_wait(main1);
    ranks[0]->end_wait(a);
    ranks[1]->end_wait(b);
  });
  second.join();
}

/// Rank 0 waits in a send to rank 1, which waits for it in an all_reduce: what rank 0 is told.
Result<void> send_against_reduce(Ranks& ranks) {
  const int pair = ranks[0]->group(group_of(0, 3));
  EXPECT_TRUE(
      ranks[0]->issue(pair, {.kind = "send", .root = 0, .needs = Needs::Receiver, .paired = true}));
  EXPECT_TRUE(issue(ranks, 1, 4));
  const Instant start = Instant{} + std::chrono::hours(1);
  auto a = ranks[0]->begin_wait(pair, 0, start),
       b = ranks[1]->begin_wait(ranks[1]->group(group_of(1)), 0, start);
  EXPECT_TRUE(ranks[0]->look(a, start));
  auto said = ranks[0]->look(a, start + kProof);
  ranks[0]->end_wait(a);
  ranks[1]->end_wait(b);
  return said;
}

TEST(Lines, SendThatEndsWhenItIsReceived_IsPartOfARing) {
  Ranks ranks = open_hosts(1, 2);
  const auto said = send_against_reduce(ranks);
  ASSERT_FALSE(said);
  EXPECT_EQ(said.error().code, Code::Stuck);
  EXPECT_TRUE(said.error().message.find("in operation 1 of group 3: send;") != std::string::npos)
      << said.error().message << " (it has no root)";
  EXPECT_EQ(ranks[0]->arrived(ranks[0]->group(group_of(0, 3)), 0), Arrival::NotYet);
}

TEST(Lines, SendToOneThatTakesFromAny_ProvesNothing) {
  Ranks ranks = open_hosts(1, 2);
  ranks[1]->posts().take_from_any();
  EXPECT_TRUE(send_against_reduce(ranks)) << "it may have been received";
  EXPECT_EQ(ranks[0]->arrived(ranks[0]->group(group_of(0, 3)), 0), Arrival::Here);
  ranks[1]->posts().finish();
  EXPECT_TRUE(ranks[0]->in_flight(ranks[0]->group(group_of(0, 3)), 0, {}));
}

/// Rank 1 in a process of its own, which posts one entry and is killed, or ends as `end` says.
void with_child(const std::function<void(Lines&)>& end, const std::function<void(Ranks&)>& look) {
  int up[2], down[2];
  ASSERT_EQ(::pipe(up) + ::pipe(down), 0);
  Ranks ranks;
  ranks.push_back(std::move(Lines::open(Rank{0}).value()));
  const std::string mine = ranks[0]->posts().place();
  const pid_t child = ::fork();
  if (child == 0) {
    Ranks there(1);
    there.push_back(std::move(Lines::open(Rank{1}).value()));
    std::string place = there[1]->posts().place();
    there[1]->posts().join({mine, place});
    if (!issue(there, 1, 4)) ::_exit(1);
    place.resize(200, ' ');
    if (::write(up[1], place.data(), place.size()) != 200) ::_exit(1);
    char go = 0;
    if (::read(down[0], &go, 1) != 1) ::_exit(1);
    end(*there[1]);
    ::_exit(0);
  }
  std::string place(200, ' ');
  ASSERT_EQ(::read(up[0], place.data(), 200), 200);
  place.erase(place.find(' '));
  ranks[0]->posts().join({mine, place});
  ASSERT_EQ(ranks[0]->posts().state(Rank{1}), PeerState::Running);
  ASSERT_EQ(::write(down[1], "g", 1), 1);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  look(ranks);
  for (const int file : {up[0], up[1], down[0], down[1]}) ::close(file);
}

/// Rank 0 does what the other has posted, and then waits for more of it.
Status waits_in_vain(Ranks& ranks) {
  EXPECT_TRUE(issue(ranks, 0, 4)) << "as the other has posted";
  EXPECT_TRUE(issue(ranks, 0, 4));
  auto wait = ranks[0]->begin_wait(0, 1, {});
  EXPECT_TRUE(ranks[0]->look(wait, Instant{}));
  return ranks[0]->look(wait, Instant{} + kProof).error();
}

TEST(Lines, KilledProcess_FreesWhoWaitsForIt_AndWhatItPostedIsStillCompared) {
  with_child([](Lines&) { ::raise(SIGKILL); },
             [](Ranks& ranks) {
               EXPECT_EQ(ranks[0]->posts().state(Rank{1}), PeerState::Lost);
               const Status over = waits_in_vain(ranks);
               EXPECT_EQ(over.code, Code::RankLost);
               EXPECT_TRUE(over.message.starts_with("the process of rank 1 has ended"))
                   << over.message;
             });
}

TEST(Lines, ProcessThatFails_IsGone_WithItsText) {
  with_child([](Lines& lines) { lines.posts().gone("ValueError: nan"); },
             [](Ranks& ranks) {
               const Status over = waits_in_vain(ranks);
               EXPECT_EQ(over.code, Code::Gone);
               EXPECT_TRUE(over.message.starts_with("rank 1 has failed: ValueError: nan ["))
                   << over.message;
             });
}

// DDP's reducer: nobody is seen to wait.
TEST(Lines, OperationInFlight_OfOneThatHasEnded_KillsItsGroup) {
  with_child([](Lines& lines) { lines.posts().gone("ValueError: nan"); },
             [](Ranks& ranks) {
               ASSERT_TRUE(issue(ranks, 0, 4));
               ASSERT_TRUE(issue(ranks, 0, 4));
               EXPECT_EQ(ranks[0]->arrived(0, 0), Arrival::All);
               EXPECT_EQ(ranks[0]->arrived(0, 1), Arrival::NotYet);
               EXPECT_TRUE(ranks[0]->in_flight(0, 0, {})) << "it may complete";
               const auto second = ranks[0]->in_flight(0, 1, {});
               ASSERT_FALSE(second);
               EXPECT_EQ(second.error().code, Code::Gone);
               const auto later = issue(ranks, 0, 4);
               ASSERT_FALSE(later) << "the group is dead";
               EXPECT_EQ(later.error().message, second.error().message);
             });
}

TEST(Lines, ProcessThatHasFinished_IsSaidToHaveIssuedLess) {
  with_child([](Lines& lines) { lines.posts().finish(); },
             [](Ranks& ranks) {
               const Status over = waits_in_vain(ranks);
               EXPECT_EQ(over.code, Code::Stuck);
               EXPECT_TRUE(over.message.starts_with("rank 1 has finished")) << over.message;
             });
}

}  // namespace
}  // namespace lockstep::lines
