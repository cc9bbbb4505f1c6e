#include <bit>

#include <lockstep/collectives/base/half.h>

namespace lockstep {
namespace {

// Arithmetic on bits, without branches, so that compilers make vectors of it.

constexpr std::uint32_t kQuiet = 0x7fc00000U;

float of_bf16(std::uint16_t h) {
  const std::uint32_t bits = std::uint32_t{h} << 16;
  return std::bit_cast<float>((bits & 0x7fffffffU) > 0x7f800000U ? kQuiet : bits);
}

std::uint16_t bf16_of(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t nearest = (bits + 0x7fffU + (bits >> 16 & 1U)) >> 16;
  return static_cast<std::uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? 0x7fc0U : nearest);
}

/// 2^112 takes its exponents to a float's, those of numbers below the normal ones too.
float of_f16(std::uint16_t h) {
  const std::uint32_t rest = h & 0x7fffU, sign = (h & 0x8000U) << 16;
  const auto finite = std::bit_cast<std::uint32_t>(std::bit_cast<float>(rest << 13) * 0x1p112F);
  const std::uint32_t size = rest >= 0x7c00U ? 0x7f800000U : finite;
  return std::bit_cast<float>(rest > 0x7c00U ? kQuiet : size | sign);
}

/// Below the smallest normal number the addition of 0.5, whose last place is theirs, rounds.
std::uint16_t f16_of(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rest = bits & 0x7fffffffU, sign = bits >> 16 & 0x8000U;
  const std::uint32_t small =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(rest) + 0.5F) - 0x3f000000U;
  const std::uint32_t normal = ((rest + 0xfffU + (rest >> 13 & 1U)) >> 13) - 0x1c000U;
  const std::uint32_t finite = rest < 0x38800000U ? small : normal;
  const std::uint32_t size = rest >= 0x477ff000U ? 0x7c00U : finite;
  return static_cast<std::uint16_t>(rest > 0x7f800000U ? 0x7e00U : size | sign);
}

}  // namespace

void widen_halves(DType dtype, const std::uint16_t* from, float* to, std::int64_t count) {
  if (dtype == DType::BF16)
    for (std::int64_t i = 0; i < count; ++i) to[i] = of_bf16(from[i]);
  else
    for (std::int64_t i = 0; i < count; ++i) to[i] = of_f16(from[i]);
}

void narrow_floats(DType dtype, const float* from, std::uint16_t* to, std::int64_t count) {
  if (dtype == DType::BF16)
    for (std::int64_t i = 0; i < count; ++i) to[i] = bf16_of(from[i]);
  else
    for (std::int64_t i = 0; i < count; ++i) to[i] = f16_of(from[i]);
}

}  // namespace lockstep
