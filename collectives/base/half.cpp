#include <lockstep/collectives/base/half.h>
#include <lockstep/collectives/base/half_bits.h>

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace lockstep {
namespace {

struct Conversions {
  void (*widen_bf16)(const std::uint16_t*, float*, std::int64_t);
  void (*widen_f16)(const std::uint16_t*, float*, std::int64_t);
  void (*narrow_to_bf16)(const float*, std::uint16_t*, std::int64_t);
  void (*narrow_to_f16)(const float*, std::uint16_t*, std::int64_t);
};

void widen_bf16(const std::uint16_t* from, float* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = f32_of_bf16(from[i]);
}
void widen_f16(const std::uint16_t* from, float* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = f32_of_f16(from[i]);
}
void narrow_to_bf16(const float* from, std::uint16_t* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = bf16_of_f32(from[i]);
}
void narrow_to_f16(const float* from, std::uint16_t* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = f16_of_f32(from[i]);
}

constexpr Conversions kPortable{widen_bf16, widen_f16, narrow_to_bf16, narrow_to_f16};

#ifdef __x86_64__

// f16 uses F16C, which keeps bits and sign of not-a-numbers; with_one_nan() replaces them. bf16
// uses AVX2 code that the compiler generates, because vcvtneps2bf16 of AVX512-BF16 treats subnormal
// numbers as 0.

__attribute__((target("avx2"))) void widen_bf16_avx2(const std::uint16_t* from, float* to,
                                                     std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = f32_of_bf16(from[i]);
}

__attribute__((target("avx2"))) void narrow_to_bf16_avx2(const float* from, std::uint16_t* to,
                                                         std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = bf16_of_f32(from[i]);
}

__attribute__((target("avx2"))) __m256 with_one_nan(__m256 x) {
  const __m256 quiet = _mm256_castsi256_ps(_mm256_set1_epi32(kQuietF32));
  return _mm256_blendv_ps(x, quiet, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

__attribute__((target("avx2,f16c"))) void widen_f16_f16c(const std::uint16_t* from, float* to,
                                                         std::int64_t count) {
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i eight = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(to + i, with_one_nan(_mm256_cvtph_ps(eight)));
  }
  widen_f16(from + i, to + i, count - i);
}

__attribute__((target("avx2,f16c"))) void narrow_to_f16_f16c(const float* from, std::uint16_t* to,
                                                             std::int64_t count) {
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i eight =
        _mm256_cvtps_ph(with_one_nan(_mm256_loadu_ps(from + i)), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), eight);
  }
  narrow_to_f16(from + i, to + i, count - i);
}

Conversions of_this_processor() {
  Conversions out = kPortable;
  if (!__builtin_cpu_supports("avx2")) return out;
  out.widen_bf16 = widen_bf16_avx2;
  out.narrow_to_bf16 = narrow_to_bf16_avx2;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit_F16C) == 0) return out;
  out.widen_f16 = widen_f16_f16c;
  out.narrow_to_f16 = narrow_to_f16_f16c;
  return out;
}

#else

Conversions of_this_processor() { return kPortable; }

#endif

const Conversions& conversions() {
  static const Conversions all = of_this_processor();
  return all;
}

}  // namespace

void widen_halves(DType dtype, const std::uint16_t* from, float* to, std::int64_t count) {
  const auto& of = conversions();
  (dtype == DType::BF16 ? of.widen_bf16 : of.widen_f16)(from, to, count);
}

void narrow_floats(DType dtype, const float* from, std::uint16_t* to, std::int64_t count) {
  const auto& of = conversions();
  (dtype == DType::BF16 ? of.narrow_to_bf16 : of.narrow_to_f16)(from, to, count);
}

}  // namespace lockstep
