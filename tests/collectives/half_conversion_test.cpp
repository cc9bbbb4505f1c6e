// Conversions of f16 and bf16 by the processor's instructions, beside those by arithmetic on bits:
// the same bits for every 16-bit pattern, and for floats at and around every tie, at the ends,
// not-a-numbers, and a walk through all 2^32.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/collectives/base/half.h>
#include <lockstep/collectives/base/half_bits.h>

namespace lockstep::half_conversion_test {
namespace {

using Halves = std::vector<std::uint16_t>;
using Floats = std::vector<float>;

constexpr std::uint32_t kPatterns = 65536;

float wide(DType dtype, std::uint16_t bits) {
  return dtype == DType::BF16 ? f32_of_bf16(bits) : f32_of_f16(bits);
}
std::uint16_t narrow(DType dtype, float x) {
  return dtype == DType::BF16 ? bf16_of_f32(x) : f16_of_f32(x);
}
std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }
float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

void expect_narrowed_alike(DType dtype, const Floats& floats) {
  Halves got(floats.size());
  narrow_floats(dtype, floats.data(), got.data(), static_cast<std::int64_t>(floats.size()));
  for (std::size_t i = 0; i < floats.size(); ++i)
    ASSERT_EQ(got[i], narrow(dtype, floats[i])) << std::hex << "bits " << bits_of(floats[i]);
}

class HalfConversion : public testing::TestWithParam<DType> {
 protected:
  [[nodiscard]] static DType half() { return GetParam(); }
};

TEST_P(HalfConversion, EveryPattern_IsWidenedToTheSameBits_AndComesBack) {
  Halves patterns(kPatterns), back(kPatterns);
  for (std::uint32_t i = 0; i < kPatterns; ++i) patterns[i] = static_cast<std::uint16_t>(i);
  Floats floats(kPatterns);
  widen_halves(half(), patterns.data(), floats.data(), kPatterns);
  narrow_floats(half(), floats.data(), back.data(), kPatterns);
  const std::uint16_t quiet = half() == DType::BF16 ? kQuietBf16 : kQuietF16;
  for (std::uint32_t i = 0; i < kPatterns; ++i) {
    ASSERT_EQ(bits_of(floats[i]), bits_of(wide(half(), patterns[i]))) << i;
    const bool nan = std::isnan(floats[i]);
    ASSERT_EQ(back[i], nan ? quiet : i);
    if (!nan) continue;
    ASSERT_EQ(bits_of(floats[i]), kQuietF32) << i;
  }
}

TEST_P(HalfConversion, TiesAndTheirNeighbours_AreRoundedToTheSameBits) {
  Floats floats;
  for (std::uint32_t i = 0; i < kPatterns; ++i) {
    const float value = wide(half(), static_cast<std::uint16_t>(i));
    const float next = wide(half(), static_cast<std::uint16_t>(i + 1));
    // Beyond the largest number: the tie with what would come next.
    float tie = value + (next - value) / 2;
    if (std::isfinite(value) && std::isinf(next))
      tie = half() == DType::BF16 ? float_of(bits_of(value) | 0x8000U)
                                  : std::copysign(65520.0F, value);
    for (const float x : {value, tie, std::nextafter(tie, INFINITY), std::nextafter(tie, -INFINITY),
                          std::nextafter(value, INFINITY), std::nextafter(value, -INFINITY)})
      floats.push_back(x);
  }
  expect_narrowed_alike(half(), floats);
}

TEST_P(HalfConversion, NotANumbersAndTheSmallest_AreTheSameBits) {
  Floats floats;
  for (const std::uint32_t sign : {0U, 0x80000000U})
    for (int bit = 0; bit < 23; ++bit)
      for (const std::uint32_t low : {0U, 1U, (1U << bit) - 1U, 0x7fffffU}) {
        const std::uint32_t fraction = (1U << bit | low) & 0x7fffffU;
        // Not-a-numbers, quiet and signalling, with every payload bit; numbers below the normal
        // ones; those of every exponent.
        floats.push_back(float_of(sign | 0x7f800000U | fraction));
        for (std::uint32_t exponent = 0; exponent < 0xffU; ++exponent)
          floats.push_back(float_of(sign | exponent << 23 | fraction));
      }
  for (const float x : {0.0F, -0.0F, INFINITY, -INFINITY}) floats.push_back(x);
  expect_narrowed_alike(half(), floats);
}

TEST_P(HalfConversion, AWalkThroughAllFloats_GivesTheSameBits) {
  constexpr std::uint64_t kStride = 251, kMany = 1U << 16;
  std::uint64_t at = 0;
  while (at < std::uint64_t{1} << 32) {
    Floats floats;
    for (; floats.size() < kMany && at < std::uint64_t{1} << 32; at += kStride)
      floats.push_back(float_of(static_cast<std::uint32_t>(at)));
    expect_narrowed_alike(half(), floats);
    if (HasFatalFailure()) return;
  }
}

// Vectors take eight or sixteen at a time: what is left over, and nothing behind it.
TEST_P(HalfConversion, AnyCountAndAlignment_TouchesItsElementsAlone) {
  const std::uint64_t seed = 21191;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (std::size_t count = 0; count <= 70; ++count)
    for (std::size_t start = 0; start < 4; ++start) {
      Halves halves(80), narrowed(80, 0xabcd);
      for (std::uint16_t& bits : halves) bits = static_cast<std::uint16_t>(random());
      Floats widened(80, -7), floats;
      for (const std::uint16_t bits : halves) floats.push_back(wide(half(), bits) * 1.001F);
      const auto many = static_cast<std::int64_t>(count);
      widen_halves(half(), halves.data() + start, widened.data() + start, many);
      narrow_floats(half(), floats.data() + start, narrowed.data() + start, many);
      for (std::size_t i = 0; i < 80; ++i) {
        const bool inside = i >= start && i < start + count;
        ASSERT_EQ(bits_of(widened[i]), bits_of(inside ? wide(half(), halves[i]) : -7.0F)) << i;
        ASSERT_EQ(narrowed[i], inside ? narrow(half(), floats[i]) : 0xabcd) << i;
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, HalfConversion, testing::Values(DType::F16, DType::BF16),
                         [](const auto& p) { return std::string(dtype_name(p.param)); });

}  // namespace
}  // namespace lockstep::half_conversion_test
