// Simplification under what is known in one trace. Internal to this folder.
#pragma once

#include <lockstep/shapes/expr/range.h>
#include <lockstep/shapes/facts/facts.h>

namespace lockstep::shapes {

/// An expression that is equal to e for every value that satisfies what is known: atoms with one
/// possible value become that, remainders of smaller numbers that number, minima and maxima lose
/// operands that never decide. Throws OverflowError.
[[nodiscard]] Expr simplify_under(const Expr& e, const Facts& facts, const SymbolRanges& symbols);

}  // namespace lockstep::shapes
