// Products by the BLAS in parts, and at the ends of what an int counts; products by our own tiles;
// products that are added to what is there.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#include "traced_run.h"

#include <lockstep/worker/compile/run/matmul.h>
#include <lockstep/worker/compile/run/matrix_product.h>

namespace lockstep::worker::matmul_test {
namespace {

using I = std::int64_t;
Threads threads;

TEST(Multiply, InPartsOfRowsAndTerms_IsThePlainProduct) {
  const I m = 5, k = 7, n = 3;
  const Array a = test::random_f64(1, {2, m, k}), b = test::random_f64(2, {2, k, n});
  for (const bool a_lies : {false, true})
    for (const bool b_lies : {false, true})
      for (const I part : {1, 2, 4, 100}) {
        Array out(DType::F64, {2, m, n}), expected = Array::zeros(DType::F64, {2, m, n});
        multiply(threads, DType::F64, {a.data(), a_lies}, {b.data(), b_lies}, out.data(), 2, m, k,
                 n, part);
        for (I i = 0; i < 2 * m * n; ++i) {
          const I batch = i / (m * n), row = i / n % m, column = i % n;
          double sum = 0;
          for (I t = 0; t < k; ++t)
            sum += a.at(batch * m * k + (a_lies ? t * m + row : row * k + t)) *
                   b.at(batch * k * n + (b_lies ? column * k + t : t * n + column));
          expected.set(i, sum);
        }
        EXPECT_TRUE(same({out}, {expected}, 1e-12)) << a_lies << b_lies << part;
      }
}

TEST(Multiply, RowsOfMoreThanTheBlasCounts_AreAnError) {
  const I most = std::numeric_limits<int>::max();
  double number = 0;
  const auto product = [&](I m, I k, I n) {
    multiply(threads, DType::F64, {&number}, {&number}, &number, 1, m, k, n);
  };
  EXPECT_THROW(product(2, most + 1, 1), std::length_error);
  EXPECT_THROW(product(1, 1, most + 1), std::length_error);
}

// By tiles; by the BLAS, in one part or several; without terms.
TEST(MatrixProduct, Adds_ToWhatIsThereOrNot) {
  for (const auto& [k, n, part] : std::vector<std::array<I, 3>>{
           {5, 6, kBlasPart}, {600, 500, kBlasPart}, {7, 6, 3}, {0, 6, kBlasPart}})
    for (const bool adds : {false, true}) {
      constexpr I m = 4;
      const std::vector<double> a(static_cast<std::size_t>(m * k), 0.5),
          b(static_cast<std::size_t>(k * n), 2);
      std::vector<double> out(static_cast<std::size_t>(m * (n + 1)), 100);
      multiply<double>({{a.data(), k}, {b.data(), n}, out.data(), n + 1, m, k, n, adds}, part);
      for (I i = 0; i < m; ++i)
        for (I j = 0; j <= n; ++j)
          EXPECT_EQ(out[static_cast<std::size_t>(i * (n + 1) + j)],
                    j == n ? 100 : static_cast<double>(k) + (adds ? 100 : 0))
              << k << " " << n << " " << part;
    }
}

/// A matrix of random numbers, stored row by row or column by column, with gaps.
template <class T>
struct Stored {
  std::vector<T> numbers;
  I row, column;
  Stored(unsigned seed, I rows, I columns, bool by_columns)
      : row(by_columns ? 1 : columns + 3), column(by_columns ? rows + 2 : 1) {
    numbers.resize(static_cast<std::size_t>(rows * row + columns * column));
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<T> number(-1, 1);
    for (I i = 0; i < rows; ++i)
      for (I j = 0; j < columns; ++j) numbers[index(i, j)] = number(random);
  }
  [[nodiscard]] std::size_t index(I i, I j) const {
    return static_cast<std::size_t>(i * row + j * column);
  }
  [[nodiscard]] T at(I i, I j) const { return numbers[index(i, j)]; }
  [[nodiscard]] StridedMatrix<T> matrix() const { return {numbers.data(), row, column}; }
};

template <class T>
void expect_small_product(unsigned seed, I m, I k, I n, bool adds) {
  constexpr T kUntouched = 77;
  const I stride = n + 2;
  std::vector<T> first;
  for (const int lie : {0, 1, 2, 3}) {
    const Stored<T> a(seed, m, k, (lie & 1) != 0), b(seed + 1, k, n, (lie & 2) != 0);
    std::vector<T> out(static_cast<std::size_t>(m * stride), kUntouched);
    multiply_small(a.matrix(), b.matrix(), out.data(), stride, m, k, n, adds);
    for (I i = 0; i < m; ++i)
      for (I j = 0; j < stride; ++j) {
        const T given = out[static_cast<std::size_t>(i * stride + j)];
        if (j >= n) {
          ASSERT_EQ(given, kUntouched) << i << " " << j;
          continue;
        }
        double sum = adds ? kUntouched : 0, sizes = sum;
        for (I term = 0; term < k; ++term) {
          const double product = double{a.at(i, term)} * double{b.at(term, j)};
          sum += product;
          sizes += std::abs(product);
        }
        const double most = 2 * static_cast<double>(k + 2) * std::numeric_limits<T>::epsilon();
        ASSERT_NEAR(given, sum, most * sizes) << i << " " << j << " lie " << lie;
      }
    if (first.empty()) first = out;
    ASSERT_EQ(out, first) << "the bits depend on how operands lie: " << lie;
  }
}

// Sizes around the edges of tiles (up to 6 rows; 8 to 64 columns), of panels (from 64 to 512 terms)
// and of passes (192 rows).
TEST(SmallProducts, OfAnySizes_AreThePlainProducts_HoweverOperandsLie) {
  if (!is_small_product<float>(1, 1, 1, {nullptr, 1, 1}))
    GTEST_SKIP() << "SKIPPED ALOUD: this processor leaves them to the BLAS";
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const auto one_of = [&](const std::vector<I>& sizes) {
    return sizes[std::uniform_int_distribution<std::size_t>(0, sizes.size() - 1)(random)];
  };
  for (int k = 0; k < 150; ++k) {
    const I m = one_of({1, 2, 3, 4, 5, 6, 7, 12, 13, 191, 193, 199, 385});
    const I terms = one_of({1, 2, 7, 8, 9, 63, 65, 128, 129, 255, 256, 257, 513, 600});
    const I n = one_of({1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 24, 33, 48, 49, 64, 65, 100});
    SCOPED_TRACE(testing::Message() << m << " x " << terms << " x " << n);
    expect_small_product<float>(static_cast<unsigned>(random()), m, terms, n, k % 2 == 0);
    expect_small_product<double>(static_cast<unsigned>(random()), m, terms, n, k % 2 == 0);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace lockstep::worker::matmul_test
