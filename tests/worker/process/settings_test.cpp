#include <cstdlib>

#include <gtest/gtest.h>

#include <lockstep/worker/process/settings.h>

namespace lockstep::worker {
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
}  // namespace lockstep::worker
