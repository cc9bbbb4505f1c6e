#include <algorithm>
#include <cmath>

#include <lockstep/worker/simulator/draw/portable_math.h>

namespace lockstep::worker::simulator {
namespace {

constexpr double kLn2 = 0x1.62e42fefa39efp-1;
constexpr double kLn2Rest = 0x1.abc9e3b39803fp-56;  // ln 2 is the sum kLn2 + kLn2Rest
constexpr double kSqrtTwoPi = 2.50662827463100050242;

}  // namespace

double exponential(double x) {
  x = std::clamp(x, -700.0, 700.0);
  const double twos = std::floor(x / kLn2 + 0.5);
  const double rest = (x - twos * kLn2) - twos * kLn2Rest;
  double sum = 1;
  for (int i = 18; i > 0; --i) sum = 1 + sum * rest / i;  // Taylor series, from its last term
  return std::ldexp(sum, static_cast<int>(twos));
}

double logarithm(double x) {
  int twos = 0;
  double mantissa = std::frexp(x, &twos);
  if (mantissa < 0.70710678118654752) {
    mantissa *= 2;
    --twos;
  }
  const double t = (mantissa - 1) / (mantissa + 1), square = t * t;
  double sum = 0;
  for (int i = 27; i > 0; i -= 2) sum = sum * square + 1.0 / i;  // 2 artanh(t)
  return twos * kLn2 + (2 * t * sum + twos * kLn2Rest);
}

double normal_below(double x) {
  constexpr double kFar = 8.3;  // beyond it the result is 0 or 1 to within 1e-16
  if (x < -kFar) return 0;
  if (x > kFar) return 1;
  double term = x, sum = x, before = 0;
  for (int odd = 3; sum != before; odd += 2) {
    before = sum;
    term = term * x * x / odd;
    sum += term;
  }
  return std::clamp(0.5 + sum / kSqrtTwoPi * exponential(-x * x / 2), 0.0, 1.0);
}

}  // namespace lockstep::worker::simulator
