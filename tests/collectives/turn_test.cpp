// One call at a time, and who is refused in between.
#include <array>
#include <atomic>
#include <optional>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

#include <lockstep/collectives/base/turn.h>

namespace lockstep::turn_test {
namespace {

/// What take() says to another thread, and that thread's number.
std::pair<std::optional<Status>, int> elsewhere(Turns& turns) {
  std::optional<Status> said;
  int number = 0;
  std::thread([&] {
    number = ::gettid();
    if (const auto turn = turns.take("step"); !turn) said = turn.error();
  }).join();
  return {said, number};
}

TEST(Turns, CallWhileAnotherThreadsIsUnderWay_IsRefusedWithBothThreadsAndWhatToDo) {
  Turns turns("a job");
  const auto mine = turns.take("settle()");
  ASSERT_TRUE(mine);
  const auto [said, number] = elsewhere(turns);
  ASSERT_TRUE(said);
  EXPECT_EQ(said->code, Code::BadInput);
  EXPECT_EQ(said->message,
            "step: thread " + std::to_string(number) +
                " calls it while a call of the main thread (" + std::to_string(::getpid()) +
                ") is under way, and a job takes one call at a time; make the calls of all threads "
                "one after the other, with one mutex around each, or on one thread");
}

TEST(Turns, CallWithinACall_IsPartOfItUntilTheOuterOneReturns) {
  Turns turns("a job");
  {
    const auto outer = turns.take("step");
    ASSERT_TRUE(outer);
    { EXPECT_TRUE(turns.take("save()")); }
    EXPECT_TRUE(elsewhere(turns).first) << "the outer call is over too early";
  }
  EXPECT_FALSE(elsewhere(turns).first);
}

TEST(Turns, TurnThatMoved_IsGivenBackOnce) {
  Turns turns("a job");
  {
    auto turn = turns.take("step");
    const Turn kept = *std::move(turn);
    EXPECT_TRUE(elsewhere(turns).first);
  }
  EXPECT_FALSE(elsewhere(turns).first);
  EXPECT_TRUE(turns.take("step"));
}

/// The thread sanitizer looks at `plain`.
TEST(Turns, CallsOfManyThreads_NeverOverlap) {
  Turns turns("a job");
  int plain = 0;
  std::atomic<int> taken{0}, refused{0};
  std::array<std::thread, 4> threads;
  for (std::thread& thread : threads)
    thread = std::thread([&] {
      for (int i = 0; i < 5000; ++i) {
        const auto turn = turns.take("step");
        if (turn) {
          ++plain, ++taken;
        } else {
          ++refused;
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(taken + refused, 20000);
  EXPECT_EQ(plain, taken);
}

}  // namespace
}  // namespace lockstep::turn_test
