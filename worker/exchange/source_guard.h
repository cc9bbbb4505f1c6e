// Guards and uniform sizes as text: what a compiled version relies on, in the names of its inputs,
// as a compiler other than this project's states it. Pure.
#pragma once

#include <optional>
#include <string_view>

#include <lockstep/shapes/expr/guard.h>
#include <lockstep/worker/exchange/decision.h>
#include <lockstep/worker/exchange/uniform_size.h>

namespace lockstep::worker {

/// The guard that `condition` is for a version made for `decision`:
///
///   x.size(0) % 8 == 0        x.size(0) * 2 <= Max(y.size(1), n)
///
/// Sizes and ints of the decision and whole numbers, with + - * // % Mod Min Max (a quotient is
/// rounded down), on both sides of one of == != < <= > >=. nullopt: the decision's static sizes
/// alone make it true. Errors: BadInput (it cannot be read, or speaks of a size that is marked
/// unbacked), BranchDivergence (the static sizes alone make it false).
[[nodiscard]] Result<std::optional<shapes::Guard>> read_guard(std::string_view condition,
                                                              const shapes::Location& where,
                                                              const Decision& decision);

/// The uniform size that `size` ("x.size(0) * 2") is for such a version. `what` needs it,
/// "all_reduce". nullopt: it is a number. Errors: BadInput, as for a guard.
[[nodiscard]] Result<std::optional<UniformSize>> read_uniform(std::string_view size,
                                                              std::string_view what,
                                                              const shapes::Location& where,
                                                              const Decision& decision);

}  // namespace lockstep::worker
