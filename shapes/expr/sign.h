// A first test of sign, by intervals and by bounds of divisions, minima and maxima.
// Internal to shapes.
#pragma once

#include <lockstep/shapes/expr/expr.h>
#include <lockstep/shapes/expr/range.h>

namespace lockstep::shapes {

/// True: e >= 0 wherever e has a value. False: this is not proven. Up to `depth` nested opaque
/// atoms are replaced by expressions that bound them. Throws OverflowError.
[[nodiscard]] bool never_negative(const Expr& e, const SymbolRanges& symbols, int depth);

}  // namespace lockstep::shapes
