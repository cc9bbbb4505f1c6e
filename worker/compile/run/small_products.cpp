// Tiles of the result are summed in registers while a panel of `b`, some columns wide, is in the
// first cache (Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008). The
// first tile of a panel packs it in passing.
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include <lockstep/worker/compile/run/small_products.h>

#ifdef __x86_64__
#include <immintrin.h>
#define LOCKSTEP_AVX2 __attribute__((target("avx2,fma")))
#define LOCKSTEP_AVX2_INLINE __attribute__((target("avx2,fma"), always_inline)) inline
#endif

namespace lockstep::worker {

#ifdef __x86_64__
namespace {

/// The bytes of a panel: half of a first cache of 32 KiB.
constexpr std::int64_t kPanelBytes = 16 << 10;
/// The rows of `a` that one pass over the panels reads.
constexpr std::int64_t kRowsOfPass = 192;

/// The rows of a panel by which a tile that packs it asks for it in advance.
constexpr std::int64_t kAhead = 8;

template <class T>
struct Lanes;

template <>
struct Lanes<float> {
  using Type = __m256;
  static constexpr int kCount = 8;
  LOCKSTEP_AVX2_INLINE static Type load(const float* p) { return _mm256_loadu_ps(p); }
  LOCKSTEP_AVX2_INLINE static void store(float* p, Type x) { _mm256_storeu_ps(p, x); }
  LOCKSTEP_AVX2_INLINE static Type all(float x) { return _mm256_set1_ps(x); }
  LOCKSTEP_AVX2_INLINE static Type sum(Type x, Type y) { return _mm256_add_ps(x, y); }
  LOCKSTEP_AVX2_INLINE static Type fused(Type x, Type y, Type z) {
    return _mm256_fmadd_ps(x, y, z);
  }
  LOCKSTEP_AVX2_INLINE static void transpose(Type* x) {
    Type pairs[8], fours[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i += 2) {
      pairs[i] = _mm256_unpacklo_ps(x[i], x[i + 1]);
      pairs[i + 1] = _mm256_unpackhi_ps(x[i], x[i + 1]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i += 4)
#pragma GCC unroll 8
      for (int h = 0; h < 2; ++h) {
        fours[i + 2 * h] = _mm256_shuffle_ps(pairs[i + h], pairs[i + 2 + h], 0x44);
        fours[i + 2 * h + 1] = _mm256_shuffle_ps(pairs[i + h], pairs[i + 2 + h], 0xee);
      }
#pragma GCC unroll 8
    for (int i = 0; i < 4; ++i) {
      x[i] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20);
      x[i + 4] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31);
    }
  }
};

template <>
struct Lanes<double> {
  using Type = __m256d;
  static constexpr int kCount = 4;
  LOCKSTEP_AVX2_INLINE static Type load(const double* p) { return _mm256_loadu_pd(p); }
  LOCKSTEP_AVX2_INLINE static void store(double* p, Type x) { _mm256_storeu_pd(p, x); }
  LOCKSTEP_AVX2_INLINE static Type all(double x) { return _mm256_set1_pd(x); }
  LOCKSTEP_AVX2_INLINE static Type sum(Type x, Type y) { return _mm256_add_pd(x, y); }
  LOCKSTEP_AVX2_INLINE static Type fused(Type x, Type y, Type z) {
    return _mm256_fmadd_pd(x, y, z);
  }
  LOCKSTEP_AVX2_INLINE static void transpose(Type* x) {
    const Type a = _mm256_unpacklo_pd(x[0], x[1]), b = _mm256_unpackhi_pd(x[0], x[1]);
    const Type c = _mm256_unpacklo_pd(x[2], x[3]), d = _mm256_unpackhi_pd(x[2], x[3]);
    x[0] = _mm256_permute2f128_pd(a, c, 0x20);
    x[1] = _mm256_permute2f128_pd(b, d, 0x20);
    x[2] = _mm256_permute2f128_pd(a, c, 0x31);
    x[3] = _mm256_permute2f128_pd(b, d, 0x31);
  }
};

/// A tile of the result: R rows of V vectors. It is added to what `out` holds if `adds`. The rows
/// of the panel are copied to `copy` if Copies.
template <class T, int R, int V, bool Copies>
LOCKSTEP_AVX2 void add_tile(std::int64_t k, StridedMatrix<T> a, const T* panel, std::int64_t apart,
                            T* out, std::int64_t stride, bool adds, T* copy) {
  using L = Lanes<T>;
  typename L::Type sums[R][V];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sums[r][v] = L::all(0);
  for (std::int64_t term = 0; term < k; ++term, a.data += a.column, panel += apart) {
    typename L::Type right[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) right[v] = L::load(panel + v * L::kCount);
    if constexpr (Copies) {
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) L::store(copy + v * L::kCount, right[v]);
      __builtin_prefetch(panel + kAhead * apart);  // the processor expects no rows so far apart
      copy += V * L::kCount;
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const typename L::Type left = L::all(a.data[r * a.row]);
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sums[r][v] = L::fused(left, right[v], sums[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      T* to = out + r * stride + v * L::kCount;
      L::store(to, adds ? L::sum(L::load(to), sums[r][v]) : sums[r][v]);
    }
}

/// As add_tile(), of `rows` rows, at most R. Copies if `copy` is not null.
template <class T, int R, int V>
LOCKSTEP_AVX2 void add_rows(std::int64_t rows, std::int64_t k, const StridedMatrix<T>& a,
                            const T* panel, std::int64_t apart, T* out, std::int64_t stride,
                            bool adds, T* copy) {
  if constexpr (R > 1)
    if (rows < R) return add_rows<T, R - 1, V>(rows, k, a, panel, apart, out, stride, adds, copy);
  if (copy != nullptr)
    add_tile<T, R, V, true>(k, a, panel, apart, out, stride, adds, copy);
  else
    add_tile<T, R, V, false>(k, a, panel, apart, out, stride, adds, nullptr);
}

/// Writes the first `width` columns of `b`, and zeros up to N columns, row behind row.
template <class T, int N>
LOCKSTEP_AVX2 void pack_panel(T* to, const StridedMatrix<T>& b, std::int64_t k,
                              std::int64_t width) {
  using L = Lanes<T>;
  constexpr std::int64_t kCount = L::kCount;
  std::int64_t j = 0;
  if (b.row == 1)
    for (; j + kCount <= width; j += kCount) {
      std::int64_t term = 0;
      for (; term + kCount <= k; term += kCount) {
        typename L::Type square[kCount];
#pragma GCC unroll 8
        for (int i = 0; i < kCount; ++i) square[i] = L::load(b.data + (j + i) * b.column + term);
        L::transpose(square);
#pragma GCC unroll 8
        for (int i = 0; i < kCount; ++i) L::store(to + (term + i) * N + j, square[i]);
      }
      for (; term < k; ++term)
        for (int i = 0; i < kCount; ++i) to[term * N + j + i] = b.data[term + (j + i) * b.column];
    }
  for (std::int64_t term = 0; term < k && j < N; ++term, to += N) {
    const T* from = b.data + term * b.row;
    std::int64_t i = j;
    for (; i < width; ++i) to[i] = from[i * b.column];
    for (; i < N; ++i) to[i] = 0;
  }
}

/// Writes the columns of each `rows` rows of `a` one behind the other. Rows are stored side by
/// side.
template <class T>
LOCKSTEP_AVX2 void pack_left(T* to, const StridedMatrix<T>& a, std::int64_t rows, std::int64_t m,
                             std::int64_t k) {
  for (std::int64_t i = 0; i < m; i += rows)
    for (std::int64_t term = 0; term < k; ++term, to += rows) {
      const T* from = a.data + i + term * a.column;
      for (std::int64_t r = 0; r < std::min(rows, m - i); ++r) to[r] = from[r];
    }
}

/// The product by tiles of at most R rows of V vectors.
template <class T, int R, int V>
LOCKSTEP_AVX2 void multiply_by_tiles(const StridedMatrix<T>& a, const StridedMatrix<T>& b, T* out,
                                     std::int64_t stride, std::int64_t m, std::int64_t k,
                                     std::int64_t n, bool adds) {
  constexpr std::int64_t kWide = std::int64_t{V} * Lanes<T>::kCount;
  constexpr std::int64_t kSize = sizeof(T), kTerms = kPanelBytes / (kWide * kSize);
  alignas(64) T packed[kPanelBytes / kSize], edge[R * kWide];
  thread_local std::vector<T> left;
  const bool packs_left = a.column != 1 && n > kWide;
  const std::int64_t tiles = (m + R - 1) / R, most_rows = (m + tiles - 1) / tiles;
  for (std::int64_t term = 0; term < k; term += kTerms) {
    const std::int64_t terms = std::min(kTerms, k - term);
    const bool continues = adds || term != 0;
    const StridedMatrix<T> of_a{a.data + term * a.column, a.row, a.column};
    if (packs_left) {
      left.resize(std::max(left.size(), static_cast<std::size_t>(tiles * most_rows * terms)));
      pack_left(left.data(), of_a, most_rows, m, terms);
    }
    for (std::int64_t j = 0; j < n; j += kWide) {
      const std::int64_t width = std::min(kWide, n - j);
      const StridedMatrix<T> of_b{b.data + term * b.row + j * b.column, b.row, b.column};
      const bool in_place = b.column == 1 && width == kWide;
      if (!in_place) pack_panel<T, kWide>(packed, of_b, terms, width);
      const T* panel = in_place ? of_b.data : packed;
      std::int64_t apart = in_place ? b.row : kWide;
      // Read once, or small enough to stay in the cache as it lies.
      T* copy = in_place && tiles > 1 && k * n * kSize > kPanelBytes ? packed : nullptr;
      for (std::int64_t i = 0; i < m; i += most_rows) {
        const std::int64_t rows = std::min(most_rows, m - i);
        const StridedMatrix<T> part =
            packs_left ? StridedMatrix<T>{left.data() + i * terms, 1, most_rows}
                       : StridedMatrix<T>{of_a.data + i * a.row, a.row, a.column};
        T* to = out + i * stride + j;
        if (width == kWide) {
          add_rows<T, R, V>(rows, terms, part, panel, apart, to, stride, continues, copy);
        } else {
          add_rows<T, R, V>(rows, terms, part, panel, apart, edge, kWide, false, copy);
          for (std::int64_t r = 0; r < rows; ++r)
            for (std::int64_t c = 0; c < width; ++c)
              to[r * stride + c] = edge[r * kWide + c] + (continues ? to[r * stride + c] : T{0});
        }
        if (copy != nullptr) panel = std::exchange(copy, nullptr), apart = kWide;
      }
    }
  }
}

}  // namespace

template <class T>
bool is_small_product(std::int64_t m, std::int64_t k, std::int64_t n, const StridedMatrix<T>& b) {
  // With AVX-512 the BLAS has vectors of twice the width.
  static const bool is_suited = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                                !__builtin_cpu_supports("avx512f");
  constexpr std::int64_t kSize = sizeof(T), kMostApart = 8 << 10;
  const std::int64_t most = m <= 64 ? 1 << 20 : 3 << 17;
  // Of rows far apart, one panel after another is read slowly.
  return is_suited && k <= most && n <= most && k * n * kSize <= most &&
         b.row * kSize <= kMostApart;
}

template <class T>
void multiply_small(const StridedMatrix<T>& a, const StridedMatrix<T>& b, T* out,
                    std::int64_t stride, std::int64_t m, std::int64_t k, std::int64_t n,
                    bool adds) {
  if (m == 1) return multiply_by_tiles<T, 1, 8>(a, b, out, stride, m, k, n, adds);
  if (m == 2) return multiply_by_tiles<T, 2, 4>(a, b, out, stride, m, k, n, adds);
  if (m == 3) return multiply_by_tiles<T, 3, 4>(a, b, out, stride, m, k, n, adds);
  for (std::int64_t i = 0; i < m; i += kRowsOfPass)
    multiply_by_tiles<T, 6, 2>({a.data + i * a.row, a.row, a.column}, b, out + i * stride, stride,
                               std::min(kRowsOfPass, m - i), k, n, adds);
}

#else

template <class T>
bool is_small_product(std::int64_t, std::int64_t, std::int64_t, const StridedMatrix<T>&) {
  return false;
}
template <class T>
void multiply_small(const StridedMatrix<T>&, const StridedMatrix<T>&, T*, std::int64_t,
                    std::int64_t, std::int64_t, std::int64_t, bool) {}

#endif

template bool is_small_product(std::int64_t, std::int64_t, std::int64_t,
                               const StridedMatrix<float>&);
template bool is_small_product(std::int64_t, std::int64_t, std::int64_t,
                               const StridedMatrix<double>&);
template void multiply_small(const StridedMatrix<float>&, const StridedMatrix<float>&, float*,
                             std::int64_t, std::int64_t, std::int64_t, std::int64_t, bool);
template void multiply_small(const StridedMatrix<double>&, const StridedMatrix<double>&, double*,
                             std::int64_t, std::int64_t, std::int64_t, std::int64_t, bool);

}  // namespace lockstep::worker
