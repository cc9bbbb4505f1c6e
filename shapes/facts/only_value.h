// Decides whether predicates leave a symbol only one value. Internal to shapes.
#pragma once

#include <cstdint>
#include <vector>

#include <lockstep/shapes/expr/guard.h>
#include <lockstep/shapes/expr/range.h>

namespace lockstep::shapes {

/// True: if the predicates hold and the symbols are in their ranges, the symbol has the value.
/// False: this is not proven. Linear predicates, and quotients and remainders by numbers, form a
/// system of linear relations, which is decided within the limits of LinearSystem. If there are
/// other predicates, values of symbols are tried, at most 4,096 in all; symbols with the fewest
/// values come first. A pure function of its arguments. Subtracts steps from `fuel` and ends when
/// no fuel is left.
[[nodiscard]] bool is_only_value(Symbol symbol, std::int64_t value,
                                 const std::vector<Predicate>& predicates,
                                 const SymbolRanges& ranges, int& fuel);

}  // namespace lockstep::shapes
