// Converts f16 and bf16 to f32 and back, one at a time, by arithmetic on bits. Works on every
// processor; the special instructions of some (half.cpp) must give the same bits. Has no branches,
// so that compilers vectorise it. Rounding and not-a-numbers: see half.h.
#pragma once

#include <bit>
#include <cstdint>

namespace lockstep {

inline constexpr std::uint32_t kQuietF32 = 0x7fc00000U;
inline constexpr std::uint16_t kQuietF16 = 0x7e00U, kQuietBf16 = 0x7fc0U;

[[nodiscard]] constexpr float f32_of_bf16(std::uint16_t h) {
  const std::uint32_t bits = std::uint32_t{h} << 16;
  return std::bit_cast<float>((bits & 0x7fffffffU) > 0x7f800000U ? kQuietF32 : bits);
}

[[nodiscard]] constexpr std::uint16_t bf16_of_f32(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t nearest = (bits + 0x7fffU + (bits >> 16 & 1U)) >> 16;
  return static_cast<std::uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? kQuietBf16 : nearest);
}

/// A factor of 2^112 turns exponents of f16 into those of f32, also for subnormal numbers.
[[nodiscard]] constexpr float f32_of_f16(std::uint16_t h) {
  const std::uint32_t rest = h & 0x7fffU, sign = (h & 0x8000U) << 16;
  const auto finite = std::bit_cast<std::uint32_t>(std::bit_cast<float>(rest << 13) * 0x1p112F);
  const std::uint32_t size = rest >= 0x7c00U ? 0x7f800000U : finite;
  return std::bit_cast<float>(rest > 0x7c00U ? kQuietF32 : size | sign);
}

/// Below f16's smallest normal number, adding 0.5 does the rounding: the last place of the sum is
/// f16's last place.
[[nodiscard]] constexpr std::uint16_t f16_of_f32(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rest = bits & 0x7fffffffU, sign = bits >> 16 & 0x8000U;
  const std::uint32_t small =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(rest) + 0.5F) - 0x3f000000U;
  const std::uint32_t normal = ((rest + 0xfffU + (rest >> 13 & 1U)) >> 13) - 0x1c000U;
  const std::uint32_t finite = rest < 0x38800000U ? small : normal;
  const std::uint32_t size = rest >= 0x477ff000U ? 0x7c00U : finite;
  return static_cast<std::uint16_t>(rest > 0x7f800000U ? kQuietF16 : size | sign);
}

}  // namespace lockstep
