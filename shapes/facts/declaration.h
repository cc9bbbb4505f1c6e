// What to declare where a guard says more of sizes than was promised. Internal to this folder.
#pragma once

#include <cstdint>
#include <string>

#include <lockstep/shapes/expr/guard.h>
#include <lockstep/shapes/expr/range.h>

namespace lockstep::shapes {

/// A relation that says of all sizes what `guard` says, as users write it (parse_condition reads it
/// back): a remainder of `symbol` alone ("x.size(0) % 4 == 1"), one size by the others
/// ("y.size(0) == 2*x.size(0)", `symbol` if it can be), else the guard as it stands. `range` and
/// `hint` are the symbol's.
[[nodiscard]] std::string declaration_text(const Predicate& guard, Symbol symbol, Range range,
                                           std::int64_t hint, const Namer& namer);

}  // namespace lockstep::shapes
