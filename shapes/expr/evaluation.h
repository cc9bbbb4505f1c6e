// Evaluation of expressions in 128 bits. Internal to this folder.
#pragma once

#include <optional>

#include <lockstep/shapes/expr/expr.h>
#include <lockstep/shapes/expr/wide.h>

namespace lockstep::shapes {

/// The value; nullopt where a symbol has none, on division by zero, and where a step (factors from
/// left to right, then the coefficient, then terms from left to right) does not fit in 128 bits.
[[nodiscard]] std::optional<Wide> evaluate_wide(const Expr& e, const Valuation& values);
/// The first divisor in `e` whose value is zero, innermost divisors first; nullopt: no divisor is
/// zero.
[[nodiscard]] std::optional<Expr> zero_divisor(const Expr& e, const Valuation& values);

}  // namespace lockstep::shapes
