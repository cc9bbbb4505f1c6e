// The conditions of one entry on its inputs: ranges of its symbols, and guards. Functions that
// remove implied guards and that compare two entries.
#pragma once

#include <map>
#include <vector>

#include <lockstep/shapes/expr/guard.h>
#include <lockstep/shapes/expr/range.h>

namespace lockstep::shapes {

/// A set of sizes: the sizes in the ranges that satisfy every guard. Requires a range for each
/// symbol of the guards.
struct GuardSet {
  std::map<Symbol, Range> ranges;
  std::vector<Guard> guards;
};

/// The guards in their order, without those that the ranges and the other guards imply. Of several
/// bounds of one expression only the tightest stays. A guard that may have no value for some sizes
/// (division by a size that may be 0) always stays, because it rejects those sizes.
[[nodiscard]] std::vector<Guard> minimal_guards(const GuardSet& set);

/// True: it is proven that `wider` admits every input that `narrower` admits. False: it does not,
/// or this is not known. Requires that both have the same symbols.
[[nodiscard]] bool covers(const GuardSet& wider, const GuardSet& narrower);

}  // namespace lockstep::shapes
