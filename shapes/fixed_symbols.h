// The symbols of an entry whose guards leave them one value.
#pragma once

#include <cstddef>
#include <vector>

#include <lockstep/shapes/guard_set.h>

namespace lockstep::shapes {

/// A symbol that must be one number, and the first guard that, with the guards before it, leaves it
/// that number.
struct FixedSymbol {
  Symbol symbol;
  std::int64_t value = 0;
  std::size_t guard = 0;  // index into GuardSet::guards
};

/// In the order of the guards. Conservative: a symbol that the prover leaves open is left out, and
/// so is a symbol whose range is one value.
[[nodiscard]] std::vector<FixedSymbol> fixed_symbols(const GuardSet& set);

}  // namespace lockstep::shapes
