// Which symbols of an entry its guards leave no choice.
#pragma once

#include <cstddef>
#include <vector>

#include <lockstep/shapes/guard_set.h>

namespace lockstep::shapes {

/// A symbol that must be one number, and the guard after which it is no other.
struct FixedSymbol {
  Symbol symbol;
  std::int64_t value = 0;
  std::size_t guard = 0;  // index into GuardSet::guards
};

/// In the order of the guards. Conservative: a symbol that the prover leaves open is not among
/// them. A range of one value is no guard.
[[nodiscard]] std::vector<FixedSymbol> fixed_symbols(const GuardSet& set);

}  // namespace lockstep::shapes
