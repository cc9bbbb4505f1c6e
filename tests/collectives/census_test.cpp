#include <random>

#include "census_tree.h"
#include <gtest/gtest.h>

namespace lockstep::collectives::census_test {
namespace {

Census of_texts(const std::vector<std::string>& texts, std::size_t from, std::size_t to) {
  Census census;
  for (std::size_t r = from; r < to; ++r)
    census.join(Census::of(Rank{static_cast<std::int32_t>(r)}, texts[r]));
  return census;
}

TEST(Census, JoinedInAnyGrouping_IsTheTableInRankOrder) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    std::vector<std::string> texts(1 + random() % 40);
    for (std::string& text : texts) text = std::to_string(random() % 5);
    const Census flat = of_texts(texts, 0, texts.size());
    for (std::size_t cut = 0; cut <= texts.size(); ++cut) {
      Census low = of_texts(texts, 0, cut);
      low.join(of_texts(texts, cut, texts.size()));
      EXPECT_EQ(low, flat);
    }
    ByteWriter out;
    flat.encode(out);
    ByteReader in(out.view());
    EXPECT_EQ(Census::decode(in), flat);
    EXPECT_TRUE(in.ok() && in.at_end());
  }
}

TEST(Census, TextsThatDifferOnlyBeyondTheCap_StayApart) {
  const std::string a(Census::kMaxText + 100, 'x');
  Census census = Census::of(Rank{0}, a + "1");
  census.join(Census::of(Rank{1}, a + "2"));
  census.join(Census::of(Rank{2}, a + "1"));
  ASSERT_EQ(census.values().size(), 2u);
  EXPECT_LE(census.values()[0].value.size(), Census::kMaxText);
  EXPECT_NE(census.values()[0].value.find("(4197 bytes, "), std::string::npos);
}

TEST(Census, MoreValuesThanAreToldApart_ShareTheLastEntry) {
  Census census;
  for (int r = 0; r < 100; ++r) census.join(Census::of(Rank{r}, std::to_string(r)));
  ASSERT_EQ(census.values().size(), Census::kMaxValues + 1);
  EXPECT_EQ(census.values().back().value, Census::kOthers);
  EXPECT_EQ(census.values().back().ranks, RankSet::range({64}, {99}));
}

TEST(Census, BytesThatAreNoCensus_AreEmpty) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 1000; ++i) {
    Bytes noise(random() % 64);
    for (std::byte& b : noise) b = static_cast<std::byte>(random() % 4);
    EXPECT_LE(census_values(noise).size(), 64u);
  }
  Bytes cut = census_payload(Rank{3}, "value");
  cut.pop_back();
  EXPECT_TRUE(census_values(cut).empty());
}

TEST(RankSet, GoesThroughItsRanksInOrder) {
  std::vector<int> seen;
  for (const Rank rank : RankSet{}) seen.push_back(rank.value);
  EXPECT_TRUE(seen.empty());
  RankSet set = RankSet::range(Rank{4}, Rank{6});
  set.insert(Rank{0});
  set.insert(Rank{9});
  for (const Rank rank : set) seen.push_back(rank.value);
  EXPECT_EQ(seen, (std::vector<int>{0, 4, 5, 6, 9}));
}

}  // namespace
}  // namespace lockstep::collectives::census_test
