#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/worker/agree/process/settings.h>

namespace lockstep::worker::settings_test {
namespace {

class CacheLimit : public testing::Test {
 protected:
  ~CacheLimit() override { ::unsetenv("LOCKSTEP_CACHE_LIMIT"); }
  static Result<Settings> with(const char* text) {
    ::setenv("LOCKSTEP_CACHE_LIMIT", text, 1);
    return Settings::from_environment();
  }
};

TEST_F(CacheLimit, NumberWithItsUnit_IsThatManyBytes) {
  EXPECT_EQ(Settings::from_environment()->cache_limit, std::uint64_t{10} << 30);
  EXPECT_EQ(with("")->cache_limit, std::uint64_t{10} << 30);
  EXPECT_EQ(with("1")->cache_limit, 1U);
  EXPECT_EQ(with("12345678901")->cache_limit, 12345678901U);
  EXPECT_EQ(with("3K")->cache_limit, 3U << 10);
  EXPECT_EQ(with("500M")->cache_limit, 500U << 20);
  EXPECT_EQ(with("2G")->cache_limit, std::uint64_t{2} << 30);
  EXPECT_EQ(with("1T")->cache_limit, std::uint64_t{1} << 40);
}

TEST_F(CacheLimit, AnythingElse_IsBadInputThatNamesTheVariable) {
  for (const char* text : {"0", "0G", "G", "-1", "1.5G", "10GB", "10 G", "10g", "10X", " 1", "1 ",
                           "99999999999999999999", "2000000T", "K1"}) {
    const auto settings = with(text);
    ASSERT_FALSE(settings) << text;
    EXPECT_EQ(settings.error().code, Code::BadInput);
    EXPECT_NE(settings.error().message.find("LOCKSTEP_CACHE_LIMIT=" + std::string(text) +
                                            " is not understood"),
              std::string::npos)
        << settings.error().message;
  }
}

// Hosts may have disks of different sizes.
TEST_F(CacheLimit, MayDifferBetweenRanks) {
  EXPECT_EQ(with("1G")->agreed_text(), with("2G")->agreed_text());
}

TEST(TraceMode, IsTold_WithItsRank_AndLeavesCoordinatorAndProfilesOut) {
  const std::vector<std::pair<const char*, const char*>> told{
      {"LOCKSTEP_TRACE", "/there"},   {"LOCKSTEP_TRACE_CALLS", "5"},
      {"LOCKSTEP_RANK", "3"},         {"LOCKSTEP_WORLD_SIZE", "8"},
      {"LOCKSTEP_JOB_ID", "nightly"}, {"LOCKSTEP_COORDINATOR", "1.2.3.4:5"}};
  EXPECT_FALSE(Settings::from_environment()->trace);
  for (const auto& [name, value] : told) ::setenv(name, value, 1);
  const auto settings = Settings::from_environment();
  Settings own;
  own.cache_dir = "/own";
  const auto traced = Settings::traced(own);
  ::setenv("LOCKSTEP_TRACE_CALLS", "many", 1);
  const auto wrong = Settings::from_environment();
  for (const auto& [name, value] : told) ::unsetenv(name);
  ASSERT_TRUE(settings && traced);
  for (const Settings* told_so : {&*settings, &*traced}) {
    ASSERT_TRUE(told_so->trace);
    EXPECT_EQ(told_so->trace->sheet(12), "/there/rank-00012.jsonl");
    EXPECT_EQ(told_so->trace->calls, 5U);
    EXPECT_EQ(told_so->rank, 3);
    EXPECT_EQ(told_so->world_size, 8);
    EXPECT_EQ(told_so->job_id, "");
    EXPECT_EQ(told_so->coordinator, kNoCoordinator);
  }
  EXPECT_EQ(traced->cache_dir, "/own");
  EXPECT_FALSE(Settings::traced(own)->trace);
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("LOCKSTEP_TRACE_CALLS=many"), std::string::npos);
}

TEST(ThreadsOfARank, AreAWholeNumber_AndMayDiffer) {
  const auto with = [](const char* text) {
    ::setenv("LOCKSTEP_THREADS", text, 1);
    auto settings = Settings::from_environment();
    ::unsetenv("LOCKSTEP_THREADS");
    return settings;
  };
  EXPECT_EQ(with("")->threads, 0);
  EXPECT_EQ(with("3")->threads, 3);
  EXPECT_EQ(with("3")->agreed_text(), with("8")->agreed_text());
  for (const char* text : {"0", "-1", "two", "1.5", "4097", "99999999999"}) {
    const auto settings = with(text);
    ASSERT_FALSE(settings) << text;
    EXPECT_EQ(settings.error().code, Code::BadInput);
    EXPECT_NE(settings.error().message.find("LOCKSTEP_THREADS=" + std::string(text)),
              std::string::npos)
        << settings.error().message;
  }
}

TEST(ThreadsOfARank, AreItsShareOfTheCoresOnWhichItMayRun) {
  cpu_set_t before, first;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  const int cores = CPU_COUNT(&before);
  const std::int32_t self = ::getpid();
  EXPECT_EQ(share_of_cores(std::vector{self}), cores);
  EXPECT_EQ(share_of_cores(std::vector(static_cast<std::size_t>(cores), self)), 1);
  EXPECT_EQ(share_of_cores(std::vector(static_cast<std::size_t>(2 * cores), self)), 1);
  EXPECT_EQ(share_of_cores({}), cores);
  // A rank that is bound to one of the cores takes half of that one.
  CPU_ZERO(&first);
  for (int core = 0; CPU_COUNT(&first) == 0; ++core)
    if (CPU_ISSET(core, &before)) CPU_SET(core, &first);
  const pid_t other = ::fork();
  if (other == 0) {
    ::pause();
    std::_Exit(0);
  }
  ASSERT_EQ(::sched_setaffinity(other, sizeof first, &first), 0);
  const int beside_bound = share_of_cores(std::vector<std::int32_t>{self, other});
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
  EXPECT_EQ(beside_bound, std::max(1, static_cast<int>(cores - 0.5)));
  ASSERT_EQ(::sched_setaffinity(0, sizeof first, &first), 0);
  EXPECT_EQ(share_of_cores(std::vector{self}), 1);
  ASSERT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
}

TEST(CheckCaptures, IsHowOftenItIsLooked_TheSameOnAllRanks) {
  const auto with = [](const char* text) {
    ::setenv("LOCKSTEP_CHECK_CAPTURES", text, 1);
    auto settings = Settings::from_environment();
    ::unsetenv("LOCKSTEP_CHECK_CAPTURES");
    return settings;
  };
  EXPECT_EQ(with("")->check_captures, 0U);
  EXPECT_EQ(with("0")->check_captures, 0U);
  EXPECT_EQ(with("100")->check_captures, 100U);
  EXPECT_NE(with("100")->agreed_text(), with("99")->agreed_text());
  for (const char* text : {"-1", "on", "1.5", "99999999999"}) {
    const auto settings = with(text);
    ASSERT_FALSE(settings) << text;
    EXPECT_EQ(settings.error().code, Code::BadInput);
    EXPECT_NE(settings.error().message.find("LOCKSTEP_CHECK_CAPTURES=" + std::string(text)),
              std::string::npos)
        << settings.error().message;
  }
}

}  // namespace
}  // namespace lockstep::worker::settings_test
