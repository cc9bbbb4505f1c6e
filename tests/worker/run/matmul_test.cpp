// Products by the BLAS in parts, and at the ends of what an int counts.
#include <limits>
#include <stdexcept>

#include "traced_run.h"

#include <lockstep/worker/compile/run/matmul.h>

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

}  // namespace
}  // namespace lockstep::worker::matmul_test
