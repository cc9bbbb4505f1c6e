// A first test of sign, by intervals and by what divisions, minima and maxima are bounded by.
// Internal to this folder.
#pragma once

#include <lockstep/shapes/expr/expr.h>
#include <lockstep/shapes/expr/range.h>

namespace lockstep::shapes {

/// True only where e >= 0 whenever it has a value. Up to `depth` opaque atoms are replaced, one
/// inside the other, by expressions that bound them. Throws OverflowError.
[[nodiscard]] bool never_negative(const Expr& e, const SymbolRanges& symbols, int depth);

}  // namespace lockstep::shapes
