#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <stdexcept>
#include <type_traits>

#include <cblas.h>
#include <fmt/format.h>

#include <lockstep/collectives/base/half.h>
#include <lockstep/worker/compile/run/matmul.h>

namespace lockstep::worker {
namespace {

template <class T>
struct Matrix {
  const T* data;
  bool transposed;
};

/// Returns the number of elements from one row to the next as the int that the BLAS takes. If there
/// is one row, the BLAS ignores the number, and it is cut to fit.
int stride(std::int64_t elements, std::int64_t rows) {
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  if (rows > 1 && elements > kMost)
    throw std::length_error(fmt::format(
        "a product has rows of {} elements; the BLAS counts up to {}", elements, kMost));
  return static_cast<int>(std::min(elements, kMost));
}

/// out [m, n] = a [m, k] b [k, n]. More than `part` rows or terms take several calls.
template <class T>
void gemm(Matrix<T> a, Matrix<T> b, T* out, std::int64_t m, std::int64_t k, std::int64_t n,
          std::int64_t part) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    std::memset(out, 0, static_cast<std::size_t>(m * n) * sizeof(T));
    return;
  }
  const auto ta = a.transposed ? CblasTrans : CblasNoTrans;
  const auto tb = b.transposed ? CblasTrans : CblasNoTrans;
  const int lda = a.transposed ? stride(m, k) : stride(k, m);
  const int ldb = b.transposed ? stride(k, n) : stride(n, k);
  const int columns = stride(n, 2);
  for (std::int64_t row = 0; row < m; row += part) {
    const auto rows = static_cast<int>(std::min(part, m - row));
    for (std::int64_t term = 0; term < k; term += part) {
      const auto terms = static_cast<int>(std::min(part, k - term));
      const T* left = a.data + (a.transposed ? term * m + row : row * k + term);
      const T* right = b.data + (b.transposed ? term : term * n);
      const T keep = term == 0 ? T{0} : T{1};
      if constexpr (std::is_same_v<T, float>)
        cblas_sgemm(CblasRowMajor, ta, tb, rows, columns, terms, 1, left, lda, right, ldb, keep,
                    out + row * n, columns);
      else
        cblas_dgemm(CblasRowMajor, ta, tb, rows, columns, terms, 1, left, lda, right, ldb, keep,
                    out + row * n, columns);
    }
  }
}

/// An f16 or bf16 matrix, which the BLAS cannot multiply. Rows are multiplied in parts that stay in
/// the cache as f32; the matrix on the right is widened whole.
struct Half {
  DType dtype;
  const std::uint16_t* data;
  bool transposed;
};
void gemm(Half a, Half b, std::uint16_t* out, std::int64_t m, std::int64_t k, std::int64_t n,
          std::int64_t most) {
  constexpr std::int64_t kElements = std::int64_t{1} << 18;
  const auto floats = [](std::int64_t count) {
    return std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(count));
  };
  // A transposed `a` stores its rows as columns, so it is widened whole, too.
  const std::int64_t fitting =
      std::max<std::int64_t>(kElements / std::max<std::int64_t>(k + n, 1), 64);
  const std::int64_t part = a.transposed ? m : std::min(fitting, m);
  if (m == 0 || n == 0) return;
  const auto left = floats(part * k), right = floats(k * n), product = floats(part * n);
  widen_halves(b.dtype, b.data, right.get(), k * n);
  for (std::int64_t start = 0; start < m; start += part) {
    const std::int64_t rows = std::min(part, m - start);
    widen_halves(a.dtype, a.data + start * k, left.get(), rows * k);
    gemm<float>({left.get(), a.transposed}, {right.get(), b.transposed}, product.get(), rows, k, n,
                most);
    narrow_floats(a.dtype, product.get(), out + start * n, rows * n);
  }
}

/// Calls `f` with a function that makes a matrix (from its address and whether it is transposed),
/// and with the element type.
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
              std::int64_t k, std::int64_t n, std::int64_t part) {
  with_float(dtype, [&]<class T>(auto matrix, std::type_identity<T>) {
    for (std::int64_t i = 0; i < batch; ++i)
      gemm(matrix(static_cast<const T*>(a.data) + i * m * k, a.transposed),
           matrix(static_cast<const T*>(b.data) + i * k * n, b.transposed),
           static_cast<T*>(out) + i * m * n, m, k, n, part);
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
           static_cast<T*>(out) + start * m, counts[e], k, m, kBlasPart);
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
           static_cast<T*>(out) + static_cast<std::int64_t>(e) * k * m, k, counts[e], m, kBlasPart);
      start += counts[e];
    }
  });
}

}  // namespace lockstep::worker
