// The declaration to suggest to the user if a guard requires more than the declared sizes promise.
// Internal to shapes.
#pragma once

#include <cstdint>
#include <string>

#include <lockstep/shapes/expr/guard.h>
#include <lockstep/shapes/expr/range.h>

namespace lockstep::shapes {

/// The relation of `guard` in the form in which users write it and parse_condition reads it. If
/// possible this is a remainder of `symbol` alone ("x.size(0) % 4 == 1"), else one size in terms of
/// the others ("y.size(0) == 2*x.size(0)"; `symbol` on the left if possible), else the guard
/// unchanged. `range` and `hint` belong to `symbol`.
[[nodiscard]] std::string declaration_text(const Predicate& guard, Symbol symbol, Range range,
                                           std::int64_t hint, const Namer& namer);

}  // namespace lockstep::shapes
