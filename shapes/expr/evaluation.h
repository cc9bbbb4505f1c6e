// Evaluation of expressions in 128 bits. Internal to shapes.
#pragma once

#include <optional>

#include <lockstep/shapes/expr/expr.h>
#include <lockstep/shapes/expr/wide.h>

namespace lockstep::shapes {

/// The value; nullopt if a symbol has no value, on division by zero, or if a step does not fit in
/// 128 bits. Steps multiply factors from left to right, then by the coefficient, and add terms from
/// left to right.
[[nodiscard]] std::optional<Wide> evaluate_wide(const Expr& e, const Valuation& values);
/// The first divisor in `e` whose value is zero, innermost divisors first; nullopt: no divisor is
/// zero.
[[nodiscard]] std::optional<Expr> zero_divisor(const Expr& e, const Valuation& values);

}  // namespace lockstep::shapes
