// Cuts a failing program down to one that still fails and of which no part can be left out.
#pragma once

#include <functional>

#include "program.h"

namespace lockstep::fuzz {

/// The smallest program found for which `fails` is true. Requires that it is true for `program`.
[[nodiscard]] Program shrink(Program program, const std::function<bool(const Program&)>& fails);

}  // namespace lockstep::fuzz
