#include <algorithm>
#include <cstring>
#include <type_traits>

#include <cblas.h>

#include <lockstep/worker/run/matmul.h>

namespace lockstep::worker {
namespace {

template <class T>
struct Matrix {
  const T* data;
  bool transposed;
};

/// out [m, n] = a [m, k] b [k, n]. The BLAS counts in int; more rows than that go in parts.
template <class T>
void gemm(Matrix<T> a, Matrix<T> b, T* out, std::int64_t m, std::int64_t k, std::int64_t n) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    std::memset(out, 0, static_cast<std::size_t>(m * n) * sizeof(T));
    return;
  }
  const auto ta = a.transposed ? CblasTrans : CblasNoTrans;
  const auto tb = b.transposed ? CblasTrans : CblasNoTrans;
  const auto lda = static_cast<int>(a.transposed ? m : k),
             ldb = static_cast<int>(b.transposed ? k : n);
  constexpr std::int64_t kRows = std::int64_t{1} << 30;
  for (std::int64_t start = 0; start < m; start += kRows) {
    const auto rows = static_cast<int>(std::min(kRows, m - start));
    const T* from = a.data + (a.transposed ? start : start * k);
    if constexpr (std::is_same_v<T, float>)
      cblas_sgemm(CblasRowMajor, ta, tb, rows, static_cast<int>(n), static_cast<int>(k), 1, from,
                  lda, b.data, ldb, 0, out + start * n, static_cast<int>(n));
    else
      cblas_dgemm(CblasRowMajor, ta, tb, rows, static_cast<int>(n), static_cast<int>(k), 1, from,
                  lda, b.data, ldb, 0, out + start * n, static_cast<int>(n));
  }
}

template <class F>
void with_float(DType dtype, F&& f) {
  if (dtype == DType::F32)
    f(std::type_identity<float>{});
  else
    f(std::type_identity<double>{});
}

}  // namespace

void multiply(DType dtype, Operand a, Operand b, void* out, std::int64_t batch, std::int64_t m,
              std::int64_t k, std::int64_t n) {
  with_float(dtype, [&]<class T>(std::type_identity<T>) {
    for (std::int64_t i = 0; i < batch; ++i)
      gemm<T>({static_cast<const T*>(a.data) + i * m * k, a.transposed},
              {static_cast<const T*>(b.data) + i * k * n, b.transposed},
              static_cast<T*>(out) + i * m * n, m, k, n);
  });
}

void multiply_segments(DType dtype, const void* x, Operand w, std::span<const std::int64_t> counts,
                       void* out, std::int64_t k, std::int64_t m) {
  with_float(dtype, [&]<class T>(std::type_identity<T>) {
    std::int64_t start = 0;
    for (std::size_t e = 0; e < counts.size(); ++e) {
      gemm<T>({static_cast<const T*>(x) + start * k, false},
              {static_cast<const T*>(w.data) + static_cast<std::int64_t>(e) * k * m, w.transposed},
              static_cast<T*>(out) + start * m, counts[e], k, m);
      start += counts[e];
    }
  });
}

void multiply_segments_outer(DType dtype, const void* x, const void* y,
                             std::span<const std::int64_t> counts, void* out, std::int64_t k,
                             std::int64_t m) {
  with_float(dtype, [&]<class T>(std::type_identity<T>) {
    std::int64_t start = 0;
    for (std::size_t e = 0; e < counts.size(); ++e) {
      gemm<T>({static_cast<const T*>(x) + start * k, true},
              {static_cast<const T*>(y) + start * m, false},
              static_cast<T*>(out) + static_cast<std::int64_t>(e) * k * m, k, counts[e], m);
      start += counts[e];
    }
  });
}

}  // namespace lockstep::worker
