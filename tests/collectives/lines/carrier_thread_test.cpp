// Notes over real connections.
#include <chrono>
#include <thread>

#include "hosts.h"
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep::lines {
namespace {

/// Where heads meet in a test: a file of this process.
collectives::TcpOptions meeting_place() {
  static int meetings = 0;
  return {.rendezvous = {},
          .file = testing::TempDir() + "lockstep_heads_" + std::to_string(::getpid()) + "_" +
                  std::to_string(++meetings),
          .rank = {},
          .patience = std::chrono::seconds(20)};
}

Ranks meet_hosts(int count, int on_each = 1) {
  Ranks ranks = open_hosts(count, on_each);
  std::vector<std::int32_t> heads;
  for (auto& rank : ranks) heads.push_back(rank->head().value().value);
  const auto at = meeting_place();
  std::vector<std::thread> meeting;
  for (auto& rank : ranks)
    meeting.emplace_back([&] {
      const auto met = rank->meet(heads, at);
      EXPECT_TRUE(met) << met.error().text();
    });
  for (std::thread& each : meeting) each.join();
  return ranks;
}

/// Whether it becomes true within a time that no healthy run needs.
template <class Condition>
bool comes_true(Condition condition) {
  for (int i = 0; i < 10'000 && !condition(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return condition();
}

TEST(CarrierThread, PostsAndRefusals_GoToTheOtherHost) {
  Ranks ranks = meet_hosts(2);
  ASSERT_TRUE(issue(*ranks[0], 5, 1, {Rank{0}, Rank{1}}));
  EXPECT_TRUE(comes_true([&] { return ranks[1]->posts().count(Rank{0}, {1, 1}) == 1; }));
  EXPECT_FALSE(issue(*ranks[1], 3, 1, {Rank{0}, Rank{1}}));
  EXPECT_TRUE(comes_true([&] { return ranks[0]->posts().refusal({1, 1}).has_value(); }));
}

TEST(CarrierThread, LastWord_HasGoneWhenItIsSaid) {
  Ranks ranks = meet_hosts(2);
  ranks[1]->gone("ValueError: nan");
  EXPECT_EQ(ranks[0]->posts().state(Rank{1}), PeerState::Gone);
  EXPECT_EQ(ranks[0]->posts().gone_text(Rank{1}), "ValueError: nan");
}

TEST(CarrierThread, HeadThatLeaves_IsUnseenFromThenOn_AndTheOthersGoOn) {
  Ranks ranks = meet_hosts(3);
  ranks[2]->leave();
  EXPECT_TRUE(comes_true([&] { return ranks[0]->posts().state(Rank{2}) == PeerState::Unseen; }));
  ASSERT_TRUE(issue(*ranks[0], 5, 1, {Rank{0}, Rank{1}}));
  EXPECT_TRUE(comes_true([&] { return ranks[1]->posts().count(Rank{0}, {1, 1}) == 1; }));
}

TEST(CarrierThread, RankThatIsNoHead_HearsAtItsEnd_ThatItHasGonePast) {
  Ranks ranks = meet_hosts(2, 2);
  const std::vector<Rank> members{Rank{1}, Rank{3}};
  ASSERT_TRUE(issue(*ranks[1], 5, 1, members));
  static_cast<void>(issue(*ranks[3], 3, 1, members));
  const auto ends = ranks[1]->finish();
  ASSERT_FALSE(ends);
  EXPECT_EQ(ends.error().code, Code::GraphDivergence);
}

/// Lines of one rank of three hosts.
std::unique_ptr<Lines> one_of_three(int rank, const collectives::TcpOptions& at) {
  auto lines = Lines::open(Rank{rank}).value();
  std::vector<std::string> places(3, "another host");
  places[static_cast<std::size_t>(rank)] = lines->posts().place();
  lines->posts().join(places);
  if (!lines->head() || !lines->meet({0, 1, 2}, at)) return nullptr;
  return lines;
}

// Nothing more is told between the others either, but they are not taken for lost.
TEST(CarrierThread, HeadThatIsKilled_IsLost_AndNobodyElseIs) {
  const auto at = meeting_place();
  const pid_t child = ::fork();
  if (child == 0) {
    const auto lines = one_of_three(2, at);
    if (lines == nullptr || !issue(*lines, 5, 1, {Rank{0}, Rank{2}})) ::_exit(1);
    ::pause();
  }
  std::unique_ptr<Lines> other;
  std::thread meeting([&] { other = one_of_three(1, at); });
  const auto lines = one_of_three(0, at);
  meeting.join();
  ASSERT_TRUE(lines && other);
  EXPECT_TRUE(comes_true([&] { return lines->posts().count(Rank{2}, {1, 1}) == 1; }));
  ::kill(child, SIGKILL);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(comes_true([&] { return lines->posts().state(Rank{2}) == PeerState::Lost; }));
  EXPECT_TRUE(comes_true([&] { return lines->posts().state(Rank{1}) != PeerState::Running; }));
  EXPECT_EQ(lines->posts().state(Rank{1}), PeerState::Unseen);
  EXPECT_TRUE(lines->finish()) << "and nobody waits for what is told no more";
}

}  // namespace
}  // namespace lockstep::lines
