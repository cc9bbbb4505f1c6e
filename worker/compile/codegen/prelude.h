// The functions that kernels call, placed before them in every compile unit. They use no headers,
// so that a unit compiles fast, and define the names of scalar_text for every target.
#pragma once

#include <string>
#include <string_view>

#include <lockstep/worker/compile/codegen/toolchain.h>

namespace lockstep::worker {

/// Returns the whole prelude. Constant.
[[nodiscard]] const std::string& kernel_prelude(Target target);
/// Returns a compile unit: the functions of the prelude that `kernels` uses, and `kernels`. Pure.
[[nodiscard]] std::string unit_text(Target target, std::string_view kernels);

}  // namespace lockstep::worker
