// Products of matrices of which one is small or has few rows, on processors with AVX2. There the
// BLAS spends much of its time on packing both operands into blocks. The sum of an element is in
// the order of the terms, in blocks of so many terms as the sizes say, so its bits depend on the
// sizes alone.
#pragma once

#include <cstdint>

namespace lockstep::worker {

/// A matrix in memory: its element [i, j] is data[i * row + j * column]; row or column is 1.
template <class T>
struct StridedMatrix {
  const T* data;
  std::int64_t row, column;
};

/// Returns whether multiply_small() takes a product of these sizes by `b`, because it is faster
/// than the BLAS. T is float or double.
template <class T>
[[nodiscard]] bool is_small_product(std::int64_t m, std::int64_t k, std::int64_t n,
                                    const StridedMatrix<T>& b);

/// out [m, n] = a [m, k] b [k, n], or that added to `out`, whose rows are `stride` elements apart.
/// Requires a processor with AVX2 and FMA, and that no size is 0.
template <class T>
void multiply_small(const StridedMatrix<T>& a, const StridedMatrix<T>& b, T* out,
                    std::int64_t stride, std::int64_t m, std::int64_t k, std::int64_t n,
                    bool adds = false);

}  // namespace lockstep::worker
