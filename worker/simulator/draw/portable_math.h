// Elementary functions made only of basic operations (+ - * / and exact scalings) in a fixed order.
// So results have the same bits with every compiler and C library; functions of C libraries differ
// in the last place. Used by the distributions. Built without fused multiply-add.
#pragma once

namespace lockstep::worker::simulator {

/// Returns e to the x, within a few units in the last place. Clamps x to [-700, 700].
[[nodiscard]] double exponential(double x);
/// Returns the natural logarithm. Requires a finite x > 0.
[[nodiscard]] double logarithm(double x);
/// Returns the share of the standard normal distribution below x; absolute error below 1e-14.
[[nodiscard]] double normal_below(double x);

}  // namespace lockstep::worker::simulator
