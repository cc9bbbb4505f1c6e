// Simplification under the facts of one trace. Internal to this folder.
#pragma once

#include <lockstep/shapes/expr/range.h>
#include <lockstep/shapes/facts/facts.h>

namespace lockstep::shapes {

/// An expression that is equal to e for all values that satisfy the facts. An atom with one
/// possible value becomes that value; Mod(a, b) with 0 <= a < b becomes a; operands of minima and
/// maxima that never decide are dropped. Throws OverflowError.
[[nodiscard]] Expr simplify_under(const Expr& e, const Facts& facts, const SymbolRanges& symbols);

}  // namespace lockstep::shapes
