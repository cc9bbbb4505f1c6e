// Gradients of gradients against finite differences of the first ones.
#include <cmath>

#include "traced_run.h"

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/language/movement_ops.h>
#include <lockstep/worker/tensor/language/order_ops.h>
#include <lockstep/worker/tensor/layers/convolution.h>
#include <lockstep/worker/tensor/layers/pooling.h>

namespace lockstep::worker::second_gradient_test {
namespace {

using test::random_f64;
using test::TracedRun;
using In = const std::vector<Tensor>&;

/// Of `loss` at `at`, by every input.
void expect_second(const std::vector<Array>& at, const std::function<Tensor(In)>& loss) {
  const TracedRun::Body body = [&](Trace&, In x) {
    // Every gradient counts by other numbers.
    Tensor total;
    double by = 0.3;
    for (const Tensor& g : grad(loss(x), x)) {
      const Tensor part = sum(g * (g + by));
      total = total.empty() ? part : total + part * by;
      by += 0.4;
    }
    std::vector<Tensor> out{total};
    for (const Tensor& g : grad(total, x)) out.push_back(g);
    return out;
  };
  TracedRun program(at, body);
  const std::vector<Array> got = program.run(at, 1e-11);
  for (std::size_t k = 0; k < at.size(); ++k)
    for (std::int64_t i = 0; i < at[k].elements(); ++i) {
      const auto moved = [&](double step) {
        std::vector<Array> near = at;
        near[k] = at[k].clone();
        near[k].set(i, at[k].at(i) + step);
        return program.run(near, 1e-11)[0].at(0);
      };
      const double slope = (moved(1e-5) - moved(-1e-5)) / 2e-5;
      EXPECT_NEAR(got[k + 1].at(i), slope, 2e-5 * std::max(1.0, std::fabs(slope)))
          << "input " << k << " at " << i;
    }
}

Array numbers(std::vector<std::int64_t> sizes, const std::vector<double>& values) {
  return Array::of(DType::F64, std::move(sizes), values);
}

TEST(SecondGradient, Products_AreRightAtZeros) {
  for (const auto& values : {std::vector{1.5, 0.0, -0.7, 2.0, 0.4, 1.1},
                             {0.0, 0.0, -0.7, 2.0, 0.0, 1.1},
                             {0.0, 0.0, 0.0, 0.0, 0.0, 0.0}}) {
    expect_second({numbers({2, 3}, values)}, [](In x) { return sum(prod(x[0], {1}) * 1.3); });
    expect_second({numbers({2, 3}, values)}, [](In x) { return sum(prod(x[0], {0})); });
    expect_second({numbers({3, 2}, values)}, [](In x) { return prod(x[0]); });
    expect_second({numbers({2, 3}, values)},
                  [](In x) { return sum(cumprod(x[0], 1) * (x[0] + 2.0)); });
    expect_second({numbers({3, 2}, values)},
                  [](In x) { return sum(cumprod(x[0], 0, Direction::Reverse)); });
  }
}

TEST(SecondGradient, Variances_HaveThatOfTheMean) {
  expect_second({random_f64(3, {3, 4})}, [](In x) {
    const Tensor v = var(x[0], {1}) * var(x[0], {0, 1}, 0.5);
    return sum(v * v) + sum(stddev(x[0], {0}));
  });
}

TEST(SecondGradient, WindowsAndWhatIsMadeOfThem) {
  expect_second({random_f64(1, {2, 2, 5, 4}), random_f64(2, {4, 1, 2, 3})}, [](In x) {
    const Tensor y = conv2d(x[0], x[1], {}, {.stride = {2, 1}, .padding = {1, 2}, .groups = 2});
    return sum(y * y * y);
  });
  expect_second({random_f64(3, {2, 6, 3, 2})}, [](In x) {
    const Tensor y = fold(x[0] * x[0], {{1, 2, 2}, {0, 3, 1, 2}}, {SymInt(14), SymInt(7)});
    return sum(y * y);
  });
  expect_second({random_f64(4, {2, 5, 6})}, [](In x) {
    const Tensor y = max_pool2d(x[0], {.kernel = {2, 3}, .padding = {1}}) *
                     avg_pool2d(x[0], {.kernel = {2, 3}, .padding = {1}});
    return sum(y * y);
  });
}

}  // namespace
}  // namespace lockstep::worker::second_gradient_test
