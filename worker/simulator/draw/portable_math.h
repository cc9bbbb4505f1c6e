// Elementary functions made only of basic operations (+ - * / and exact scalings) in a fixed order,
// so that results have the same bits with every compiler and C library; the functions of C
// libraries differ in the last place. Used by the distributions. Built without fused multiply-add.
#pragma once

namespace lockstep::worker::simulator {

/// e to the x, within a few units in the last place; x is clamped to -700 and 700.
[[nodiscard]] double exponential(double x);
/// The natural logarithm. Requires a finite x > 0.
[[nodiscard]] double logarithm(double x);
/// Returns the share of the standard normal distribution below x; absolute error below 1e-14.
[[nodiscard]] double normal_below(double x);

}  // namespace lockstep::worker::simulator
