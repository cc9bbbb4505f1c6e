#include <array>

#include <gtest/gtest.h>

#include <lockstep/shapes/expr/fingerprint.h>

namespace lockstep::shapes::fingerprint_test {
namespace {

// XXH3 128, seed 0, as published with the method: a change of hash would orphan every stored
// artifact.
TEST(Fingerprint, KnownInputs_HaveKnownValues) {
  EXPECT_EQ(fingerprint("").text(), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(FingerprintBuilder().finish(), fingerprint(""));
  EXPECT_EQ(fingerprint("lockstep").text(), "b4ead11c934f0a1e75345b2b871d8c38");
  EXPECT_EQ(
      FingerprintBuilder().add("graph").add(std::int64_t{-1}).add(fingerprint("x")).finish().text(),
      "9cde1f6ad207b91e35cbd4d8e148a48f");
}

TEST(Fingerprint, BytesAndText_Agree) {
  const std::array bytes{std::byte{'a'}, std::byte{'b'}};
  EXPECT_EQ(fingerprint(bytes), fingerprint("ab"));
}

TEST(FingerprintBuilder, Fields_AreDelimited) {
  const auto of = [](auto... fields) {
    FingerprintBuilder builder;
    (builder.add(fields), ...);
    return builder.finish();
  };
  EXPECT_NE(of("ab", "c"), of("a", "bc"));
  EXPECT_NE(of("ab", "c"), of("abc"));
  EXPECT_NE(of(""), of());
  EXPECT_NE(of(std::int64_t{1}, std::int64_t{0}), of(std::int64_t{1}));
  EXPECT_NE(of(fingerprint("a")), of("a"));
  EXPECT_EQ(of("a", std::int64_t{2}), of("a", std::int64_t{2}));
}

TEST(Fingerprint, Order_IsHighThenLow) {
  EXPECT_LT((Fingerprint{1, 9}), (Fingerprint{2, 0}));
  EXPECT_EQ((Fingerprint{1, 0xab}).text(), "000000000000000100000000000000ab");
}

TEST(Fingerprint, IsReadAsItIsWritten) {
  const Fingerprint one = fingerprint("one");
  EXPECT_EQ(Fingerprint::read(one.text()), one);
  for (std::string text : {one.text() + "0", one.text().substr(1), std::string(31, '0') + "x"})
    EXPECT_FALSE(Fingerprint::read(text)) << text;
}

}  // namespace
}  // namespace lockstep::shapes::fingerprint_test
