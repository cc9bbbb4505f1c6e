// Numbers and bytes as text, and back: the whole text, or nothing.
#include <cstdint>

#include <gtest/gtest.h>

#include <lockstep/collectives/base/number_text.h>

namespace lockstep::number_text_test {
namespace {

TEST(NumberText, WholeTextOrNothing) {
  EXPECT_EQ(number_in<int>("-12"), -12);
  EXPECT_EQ(number_in<std::uint64_t>("ff", 16), 255U);
  EXPECT_EQ(number_in<double>("2.5e1"), 25.0);
  for (const char* text : {"", " 1", "1 ", "+1", "1x", "0x1", "4294967296"})
    EXPECT_FALSE(number_in<int>(text)) << text;
  EXPECT_FALSE(number_in<std::uint8_t>("256"));
  EXPECT_FALSE(number_in<std::uint64_t>("-1"));
}

TEST(NumberText, HexadecimalIsTwoDigitsAByte) {
  Bytes all;
  for (int i = 0; i < 256; ++i) all.push_back(static_cast<std::byte>(i));
  EXPECT_EQ(hex_of(std::span(all).first(3)), "000102");
  EXPECT_EQ(bytes_of_hex(hex_of(all)), all);
  EXPECT_EQ(bytes_of_hex("FfA0"), (Bytes{std::byte{255}, std::byte{160}}));
  EXPECT_EQ(bytes_of_hex(""), Bytes{});
  for (const char* text : {"0", "000", "0g", " 1", "-1"}) EXPECT_FALSE(bytes_of_hex(text)) << text;
}

}  // namespace
}  // namespace lockstep::number_text_test
