// Whether predicates leave a symbol one value only. Internal to this folder.
#pragma once

#include <cstdint>
#include <vector>

#include <lockstep/shapes/expr/guard.h>
#include <lockstep/shapes/expr/range.h>

namespace lockstep::shapes {

/// True: where the predicates hold and the symbols are in their ranges, the symbol is the value.
/// False: not shown. Predicates that are linear but for quotients and remainders by numbers are a
/// system of linear relations, which is decided but for the limits of LinearSystem. Where others
/// are among them, values are tried, of the symbols that have the fewest first: at most 4,096 in
/// all. A pure function of its arguments; takes steps off the fuel and ends when that is spent.
[[nodiscard]] bool is_only_value(Symbol symbol, std::int64_t value,
                                 const std::vector<Predicate>& predicates,
                                 const SymbolRanges& ranges, int& fuel);

}  // namespace lockstep::shapes
