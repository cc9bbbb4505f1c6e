#include <algorithm>
#include <cstring>
#include <memory>
#include <type_traits>

#include <cblas.h>

#include <lockstep/collectives/base/half.h>
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

/// f16 and bf16, of which BLAS has no products. Rows are multiplied in parts that stay in the cache
/// as f32; the matrix on the right is widened whole.
struct Half {
  DType dtype;
  const std::uint16_t* data;
  bool transposed;
};
void gemm(Half a, Half b, std::uint16_t* out, std::int64_t m, std::int64_t k, std::int64_t n) {
  constexpr std::int64_t kElements = std::int64_t{1} << 18;
  const auto floats = [](std::int64_t count) {
    return std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(count));
  };
  // Rows of a that lies transposed are columns, so it is widened whole, too.
  const std::int64_t fitting =
      std::max<std::int64_t>(kElements / std::max<std::int64_t>(k + n, 1), 64);
  const std::int64_t part = a.transposed ? m : std::min(fitting, m);
  if (m == 0 || n == 0) return;
  const auto left = floats(part * k), right = floats(k * n), product = floats(part * n);
  widen_halves(b.dtype, b.data, right.get(), k * n);
  for (std::int64_t start = 0; start < m; start += part) {
    const std::int64_t rows = std::min(part, m - start);
    widen_halves(a.dtype, a.data + start * k, left.get(), rows * k);
    gemm<float>({left.get(), a.transposed}, {right.get(), b.transposed}, product.get(), rows, k, n);
    narrow_floats(a.dtype, product.get(), out + start * n, rows * n);
  }
}

/// Calls `f` with a maker of matrices, from their address and how they lie, and with the type of
/// their elements.
template <class F>
void with_float(DType dtype, F&& f) {
  if (dtype == DType::F32)
    f(
        [](const float* data, bool transposed) {
          return Matrix<float>{data, transposed};
        },
        std::type_identity<float>{});
  else if (dtype == DType::F64)
    f(
        [](const double* data, bool transposed) {
          return Matrix<double>{data, transposed};
        },
        std::type_identity<double>{});
  else
    f(
        [dtype](const std::uint16_t* data, bool transposed) {
          return Half{dtype, data, transposed};
        },
        std::type_identity<std::uint16_t>{});
}

}  // namespace

void multiply(DType dtype, Operand a, Operand b, void* out, std::int64_t batch, std::int64_t m,
              std::int64_t k, std::int64_t n) {
  with_float(dtype, [&]<class T>(auto matrix, std::type_identity<T>) {
    for (std::int64_t i = 0; i < batch; ++i)
      gemm(matrix(static_cast<const T*>(a.data) + i * m * k, a.transposed),
           matrix(static_cast<const T*>(b.data) + i * k * n, b.transposed),
           static_cast<T*>(out) + i * m * n, m, k, n);
  });
}

void multiply_segments(DType dtype, const void* x, Operand w, std::span<const std::int64_t> counts,
                       void* out, std::int64_t k, std::int64_t m) {
  with_float(dtype, [&]<class T>(auto matrix, std::type_identity<T>) {
    std::int64_t start = 0;
    for (std::size_t e = 0; e < counts.size(); ++e) {
      gemm(matrix(static_cast<const T*>(x) + start * k, false),
           matrix(static_cast<const T*>(w.data) + static_cast<std::int64_t>(e) * k * m,
                  w.transposed),
           static_cast<T*>(out) + start * m, counts[e], k, m);
      start += counts[e];
    }
  });
}

void multiply_segments_outer(DType dtype, const void* x, const void* y,
                             std::span<const std::int64_t> counts, void* out, std::int64_t k,
                             std::int64_t m) {
  with_float(dtype, [&]<class T>(auto matrix, std::type_identity<T>) {
    std::int64_t start = 0;
    for (std::size_t e = 0; e < counts.size(); ++e) {
      gemm(matrix(static_cast<const T*>(x) + start * k, true),
           matrix(static_cast<const T*>(y) + start * m, false),
           static_cast<T*>(out) + static_cast<std::int64_t>(e) * k * m, k, counts[e], m);
      start += counts[e];
    }
  });
}

}  // namespace lockstep::worker
