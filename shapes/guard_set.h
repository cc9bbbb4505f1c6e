// What one entry asks of its inputs: ranges of its symbols and guards. Fewer guards that admit the
// same inputs, and whether one entry serves all that another one does.
#pragma once

#include <map>
#include <vector>

#include <lockstep/shapes/expr/guard.h>
#include <lockstep/shapes/expr/range.h>

namespace lockstep::shapes {

/// Admits the sizes that lie in the ranges and satisfy every guard. Requires a range for each
/// symbol of the guards.
struct GuardSet {
  std::map<Symbol, Range> ranges;
  std::vector<Guard> guards;
};

/// The guards without those that the ranges and the others imply; the kept ones in their order. Of
/// guards that bound the same expression only the tightest stay. A guard that may have no value for
/// some sizes (division by a size that may be 0) always stays, for it turns those away.
[[nodiscard]] std::vector<Guard> minimal_guards(const GuardSet& set);

/// True where every input that `narrower` admits is proven to be admitted by `wider`, over the same
/// symbols. False where it is not, or open.
[[nodiscard]] bool covers(const GuardSet& wider, const GuardSet& narrower);

}  // namespace lockstep::shapes
