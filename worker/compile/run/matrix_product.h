// A product of two matrices in memory, on the thread that calls: by the BLAS or, if it is small, by
// our own tiles. Its bits depend on its sizes alone, not on how its operands lie in memory.
#pragma once

#include <cstdint>

#include <lockstep/worker/compile/run/small_products.h>

namespace lockstep::worker {

/// A matrix with `stride` elements from one stored row to the next. If it is transposed, its columns
/// are stored as rows.
template <class T>
struct StoredMatrix {
  const T* data;
  std::int64_t stride;
  bool transposed = false;

  /// The matrix of the rows from `row` on and the columns from `column` on.
  [[nodiscard]] StoredMatrix from(std::int64_t row, std::int64_t column) const {
    const std::int64_t at = transposed ? column * stride + row : row * stride + column;
    return {data + at, stride, transposed};
  }
  [[nodiscard]] StridedMatrix<T> strided() const {
    return {data, transposed ? 1 : stride, transposed ? stride : 1};
  }
};

/// out [m, n] = a [m, k] b [k, n], or that added to `out`, whose rows are `stride` elements apart.
template <class T>
struct MatrixProduct {
  StoredMatrix<T> a, b;
  T* out;
  std::int64_t stride, m, k, n;
  bool adds = false;

  [[nodiscard]] MatrixProduct rows(std::int64_t first, std::int64_t count) const {
    return {a.from(first, 0), b, out + first * stride, stride, count, k, n, adds};
  }
  [[nodiscard]] MatrixProduct columns(std::int64_t first, std::int64_t count) const {
    return {a, b.from(0, first), out + first, stride, m, k, count, adds};
  }
};

/// Makes the BLAS compute on the thread that calls it: OpenBLAS promises equal bits for one thread
/// only.
void use_one_thread_of_the_blas();

/// Most rows, and most terms of a sum, that one call of the BLAS takes.
inline constexpr std::int64_t kBlasPart = std::int64_t{1} << 30;

/// Sizes may be 0. T is float or double. Throws std::length_error if a row has more elements than an
/// int can count, which is a limit of the BLAS. Tests pass a small `part`.
template <class T>
void multiply(const MatrixProduct<T>& product, std::int64_t part = kBlasPart);

}  // namespace lockstep::worker
