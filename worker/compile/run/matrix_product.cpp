#include <algorithm>
#include <limits>
#include <stdexcept>
#include <type_traits>

#include <cblas.h>
#include <fmt/format.h>

#include <lockstep/worker/compile/run/matrix_product.h>

namespace lockstep::worker {
namespace {

/// Returns the number of elements from one row to the next as the int that the BLAS takes. If there
/// is one row, the BLAS ignores the number, and it is cut to fit.
int blas_stride(std::int64_t elements, std::int64_t rows) {
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  if (rows > 1 && elements > kMost)
    throw std::length_error(fmt::format(
        "a product has rows of {} elements; the BLAS counts up to {}", elements, kMost));
  return static_cast<int>(std::min(elements, kMost));
}

}  // namespace

void use_one_thread_of_the_blas() {
  [[maybe_unused]] static const bool alone = (openblas_set_num_threads(1), true);
}

template <class T>
void multiply(const MatrixProduct<T>& product, std::int64_t part) {
  const auto& [a, b, out, stride, m, k, n, adds] = product;
  if (m == 0 || n == 0) return;
  if (k == 0) {
    for (std::int64_t row = 0; row < m && !adds; ++row) std::fill_n(out + row * stride, n, T{0});
    return;
  }
  if (m <= part && k <= part && is_small_product(m, k, n, b.strided()))
    return multiply_small(a.strided(), b.strided(), out, stride, m, k, n, adds);
  const auto ta = a.transposed ? CblasTrans : CblasNoTrans;
  const auto tb = b.transposed ? CblasTrans : CblasNoTrans;
  const int lda = blas_stride(a.stride, a.transposed ? k : m);
  const int ldb = blas_stride(b.stride, b.transposed ? n : k);
  const int ldc = blas_stride(stride, 2), columns = blas_stride(n, 2);
  for (std::int64_t row = 0; row < m; row += part) {
    const auto rows = static_cast<int>(std::min(part, m - row));
    for (std::int64_t term = 0; term < k; term += part) {
      const auto terms = static_cast<int>(std::min(part, k - term));
      const T* left = a.from(row, term).data;
      const T* right = b.from(term, 0).data;
      const T keep = adds || term != 0 ? T{1} : T{0};
      if constexpr (std::is_same_v<T, float>)
        cblas_sgemm(CblasRowMajor, ta, tb, rows, columns, terms, 1, left, lda, right, ldb, keep,
                    out + row * stride, ldc);
      else
        cblas_dgemm(CblasRowMajor, ta, tb, rows, columns, terms, 1, left, lda, right, ldb, keep,
                    out + row * stride, ldc);
    }
  }
}

template void multiply(const MatrixProduct<float>& product, std::int64_t part);
template void multiply(const MatrixProduct<double>& product, std::int64_t part);

}  // namespace lockstep::worker
