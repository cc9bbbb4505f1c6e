// Parses guards and uniform sizes that a compiler other than this project's states as text, in the
// names of a compiled version's inputs. Pure.
#pragma once

#include <optional>
#include <string_view>

#include <lockstep/shapes/expr/guard.h>
#include <lockstep/worker/agree/exchange/decision.h>
#include <lockstep/worker/agree/exchange/uniform_size.h>

namespace lockstep::worker {

/// Parses `condition` as a guard of a version made for `decision`:
///
///   x.size(0) % 8 == 0        x.size(0) * 2 <= Max(y.size(1), n)
///
/// Syntax: sizes and ints of the decision and whole numbers, with + - * // % Mod Min Max (a
/// quotient is rounded down), on both sides of one of == != < <= > >=. nullopt: the decision's
/// static sizes alone make it true. Errors: BadInput (it cannot be read, or names a size that is
/// marked unbacked), BranchDivergence (the static sizes alone make it false).
[[nodiscard]] Result<std::optional<shapes::Guard>> read_guard(std::string_view condition,
                                                              const shapes::Location& where,
                                                              const Decision& decision);

/// Parses `size` ("x.size(0) * 2") as a uniform size of a version made for `decision`. `what`: the
/// operation that needs it ("all_reduce"). nullopt: the size is a number. Errors: BadInput, as for
/// a guard.
[[nodiscard]] Result<std::optional<UniformSize>> read_uniform(std::string_view size,
                                                              std::string_view what,
                                                              const shapes::Location& where,
                                                              const Decision& decision);

}  // namespace lockstep::worker
