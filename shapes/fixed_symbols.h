// The symbols of an entry to which the guards leave only one value.
#pragma once

#include <cstddef>
#include <vector>

#include <lockstep/shapes/guard_set.h>

namespace lockstep::shapes {

/// A symbol that must be one number, and the first guard that, together with the guards before it,
/// leaves only that number.
struct FixedSymbol {
  Symbol symbol;
  std::int64_t value = 0;
  std::size_t guard = 0;  // index into GuardSet::guards
};

/// The fixed symbols, in the order of the guards. Conservative: omits symbols for which the prover
/// finds no answer. Also omits symbols whose range is one value.
[[nodiscard]] std::vector<FixedSymbol> fixed_symbols(const GuardSet& set);

}  // namespace lockstep::shapes
