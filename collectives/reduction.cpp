#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <vector>

#include <lockstep/collectives/base/half.h>
#include <lockstep/collectives/reduction.h>

namespace lockstep::collectives {
namespace {

template <class T>
T add(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return a + b;
  else  // Unsigned 64-bit sums wrap to the same bits as sums of the narrower type.
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

template <class T>
T multiply(T a, std::int64_t times) {
  if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(a * static_cast<double>(times));
  else
    return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(times));
}

template <class T>
void reduce_as(Reduce reduce, void* into, const void* from, std::int64_t elements) {
  T* a = static_cast<T*>(into);
  const T* b = static_cast<const T*>(from);
  switch (reduce) {
    case Reduce::Sum:
      for (std::int64_t i = 0; i < elements; ++i) a[i] = add(a[i], b[i]);
      return;
    case Reduce::Min:
      for (std::int64_t i = 0; i < elements; ++i) a[i] = smaller(a[i], b[i]);
      return;
    case Reduce::Max:
      for (std::int64_t i = 0; i < elements; ++i) a[i] = larger(a[i], b[i]);
  }
}

/// Calls `act` with a zero of the dtype's type; a bool is one byte. Not for f16 and bf16.
template <class Act>
void with_type(DType dtype, Act act) {
  switch (dtype) {
    case DType::Bool:
    case DType::U8:
      return act(std::uint8_t{0});
    case DType::I8:
      return act(std::int8_t{0});
    case DType::I16:
      return act(std::int16_t{0});
    case DType::I32:
      return act(std::int32_t{0});
    case DType::I64:
      return act(std::int64_t{0});
    case DType::F32:
      return act(0.0F);
    case DType::F64:
      return act(0.0);
    case DType::F16:
    case DType::BF16:
      return;
  }
}

/// Number of elements that are widened at a time.
constexpr std::int64_t kChunk = 1024;

/// Sums in f64 and rounds once. chunk(r, at, count) returns `count` elements of rank r from `at`
/// on, as f32; store(at, count, sums) takes their sums.
template <class Chunk, class Store>
void sum_wide(std::size_t ranks, std::int64_t elements, Chunk chunk, Store store) {
  std::array<double, kChunk> total;
  std::array<float, kChunk> rounded;
  for (std::int64_t at = 0; at < elements; at += kChunk) {
    const std::int64_t count = std::min(kChunk, elements - at);
    const auto n = static_cast<std::size_t>(count);
    for (std::size_t r = 0; r < ranks; ++r) {
      const float* x = chunk(r, at, count);
      // Starts with the first rank's value, not with 0: a sum of negative zeros stays negative.
      for (std::size_t i = 0; i < n; ++i)
        total[i] = r == 0 ? static_cast<double>(x[i]) : total[i] + static_cast<double>(x[i]);
    }
    for (std::size_t i = 0; i < n; ++i) rounded[i] = static_cast<float>(total[i]);
    store(at, count, rounded.data());
  }
}

void sum_floats(std::span<const void* const> from, float* into, std::int64_t elements) {
  sum_wide(
      from.size(), elements,
      [&](std::size_t r, std::int64_t at, std::int64_t) {
        return static_cast<const float*>(from[r]) + at;
      },
      [&](std::int64_t at, std::int64_t count, const float* x) {
        std::copy_n(x, count, into + at);
      });
}

void sum_halves(DType dtype, std::span<const void* const> from, std::uint16_t* into,
                std::int64_t elements) {
  std::array<float, kChunk> wide;
  sum_wide(
      from.size(), elements,
      [&](std::size_t r, std::int64_t at, std::int64_t count) {
        widen_halves(dtype, static_cast<const std::uint16_t*>(from[r]) + at, wide.data(), count);
        return wide.data();
      },
      [&](std::int64_t at, std::int64_t count, const float* x) {
        narrow_floats(dtype, x, into + at, count);
      });
}

}  // namespace

void reduce_ranks(DType dtype, Reduce reduce, std::span<const void* const> from, void* into,
                  std::int64_t elements) {
  if (reduce == Reduce::Sum && dtype == DType::F32)
    return sum_floats(from, static_cast<float*>(into), elements);
  if (reduce == Reduce::Sum && is_half(dtype))
    return sum_halves(dtype, from, static_cast<std::uint16_t*>(into), elements);
  if (is_half(dtype)) {
    std::vector<float> total(static_cast<std::size_t>(elements)), next(total.size());
    for (std::size_t r = 0; r < from.size(); ++r) {
      widen_halves(dtype, static_cast<const std::uint16_t*>(from[r]),
                   r == 0 ? total.data() : next.data(), elements);
      if (r > 0) reduce_as<float>(reduce, total.data(), next.data(), elements);
    }
    return narrow_floats(dtype, total.data(), static_cast<std::uint16_t*>(into), elements);
  }
  if (into != from[0])
    std::memcpy(into, from[0], static_cast<std::size_t>(elements) * dtype_size(dtype));
  for (const void* next : from.subspan(1))
    with_type(dtype, [&](auto zero) { reduce_as<decltype(zero)>(reduce, into, next, elements); });
}

void multiply_elements(DType dtype, void* into, std::int64_t times, std::int64_t elements) {
  if (is_half(dtype)) {
    std::vector<float> wide(static_cast<std::size_t>(elements));
    auto* halves = static_cast<std::uint16_t*>(into);
    widen_halves(dtype, halves, wide.data(), elements);
    multiply_elements(DType::F32, wide.data(), times, elements);
    return narrow_floats(dtype, wide.data(), halves, elements);
  }
  with_type(dtype, [&](auto zero) {
    using T = decltype(zero);
    T* a = static_cast<T*>(into);
    for (std::int64_t i = 0; i < elements; ++i) a[i] = multiply(a[i], times);
  });
}

}  // namespace lockstep::collectives
