#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include <lockstep/worker/compile/run/row_exponentials.h>

// Clones for several instruction sets give the same bits: this file is compiled without
// contraction, and sums have a fixed number of lanes. The choice of a clone runs before the thread
// sanitizer has started, so builds with that sanitizer have no clones.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define LOCKSTEP_CLONES __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define LOCKSTEP_CLONES
#endif

namespace lockstep::worker {
namespace {

using I = std::int64_t;

template <class T>
struct ExpNumbers;
template <>
struct ExpNumbers<float> {
  using Bits = std::uint32_t;
  static constexpr int kMantissa = 23, kBias = 127;
  static constexpr std::size_t kTerms = 7;
  static constexpr float kLow = -87, kHigh = 88, kRounder = 0x1.8p23F;
  static constexpr float kLogHigh = 0x1.630p-1F, kLogLow = -0x1.bd01060000000p-13F;
};
template <>
struct ExpNumbers<double> {
  using Bits = std::uint64_t;
  static constexpr int kMantissa = 52, kBias = 1023;
  static constexpr std::size_t kTerms = 13;
  static constexpr double kLow = -708, kHigh = 709, kRounder = 0x1.8p52;
  static constexpr double kLogHigh = 0x1.62e4200000000p-1, kLogLow = 0x1.fdf473de6af28p-22;
};

/// 1 / k!
template <class T>
constexpr auto kFactors = [] {
  std::array<T, ExpNumbers<T>::kTerms + 1> out{};
  double factor = 1;
  for (std::size_t k = 0; k < out.size(); ++k) {
    out[k] = static_cast<T>(factor);
    factor /= static_cast<double>(k + 1);
  }
  return out;
}();

/// x = n log(2) + r with a whole n: 2^n times the series of e^r. log(2) is in two parts, of which
/// the first times n is exact.
template <class T>
[[gnu::always_inline]] inline T exponential(T x) {
  using N = ExpNumbers<T>;
  const T rounded = x * T(0x1.71547652b82fep0) + N::kRounder, n = rounded - N::kRounder;
  const T r = (x - n * N::kLogHigh) - n * N::kLogLow;
  T series = kFactors<T>[N::kTerms];
  for (std::size_t k = N::kTerms - 1; k >= 2; --k) series = series * r + kFactors<T>[k];
  const T small = r * r * series + r;
  const auto bits = static_cast<typename N::Bits>(std::bit_cast<typename N::Bits>(rounded) +
                                                  typename N::Bits{N::kBias});
  const T power = std::bit_cast<T>(static_cast<typename N::Bits>(bits << N::kMantissa));
  const T y = small * power + power;
  return x < N::kLow ? T(0) : x > N::kHigh ? std::numeric_limits<T>::infinity() : y;
}

template <class T>
[[gnu::always_inline]] inline T total_of(T (&lanes)[kExpLanes]) {
  for (I step = kExpLanes / 2; step > 0; step /= 2)
    for (I i = 0; i < step; ++i) lanes[i] += lanes[i + step];
  return lanes[0];
}

template <class T>
[[gnu::always_inline]] inline T shifted(T* x, I count, T shift) {
  T lanes[kExpLanes] = {};
  for (I j = 0; j < count; ++j) x[j] = exponential(x[j] - shift);
  for (I j = 0; j < count; j += kExpLanes)
    for (I i = 0; i < kExpLanes; ++i) lanes[i] += x[j + i];
  return total_of(lanes);
}

template <class T>
[[gnu::always_inline]] inline T greatest(const T* x, I count) {
  T lanes[kExpLanes];
  std::fill_n(lanes, kExpLanes, -std::numeric_limits<T>::infinity());
  for (I j = 0; j < count; j += kExpLanes)
    for (I i = 0; i < kExpLanes; ++i) lanes[i] = x[j + i] > lanes[i] ? x[j + i] : lanes[i];
  return *std::max_element(lanes, lanes + kExpLanes);
}

template <class T>
[[gnu::always_inline]] inline T product(const T* a, const T* b, I count) {
  T lanes[kExpLanes] = {};
  I j = 0;
  for (; j + kExpLanes <= count; j += kExpLanes)
    for (I i = 0; i < kExpLanes; ++i) lanes[i] += a[j + i] * b[j + i];
  for (I i = 0; j < count; ++i, ++j) lanes[i] += a[j] * b[j];
  return total_of(lanes);
}

}  // namespace

LOCKSTEP_CLONES void exponentials(std::span<float> x) {
  for (float& one : x) one = exponential(one);
}
LOCKSTEP_CLONES void exponentials(std::span<double> x) {
  for (double& one : x) one = exponential(one);
}
LOCKSTEP_CLONES float shifted_exponentials(float* x, I count, float shift) {
  return shifted(x, count, shift);
}
LOCKSTEP_CLONES double shifted_exponentials(double* x, I count, double shift) {
  return shifted(x, count, shift);
}
LOCKSTEP_CLONES float greatest_of(const float* x, I count) { return greatest(x, count); }
LOCKSTEP_CLONES double greatest_of(const double* x, I count) { return greatest(x, count); }
LOCKSTEP_CLONES float product_of_rows(const float* a, const float* b, I count) {
  return product(a, b, count);
}
LOCKSTEP_CLONES double product_of_rows(const double* a, const double* b, I count) {
  return product(a, b, count);
}

}  // namespace lockstep::worker
