// The functions that the text of kernels calls, which stand before them in every compile unit:
// header-free, so that a unit compiles fast. They give the names of scalar_text the same meaning on
// every target.
#pragma once

#include <string>
#include <string_view>

#include <lockstep/worker/codegen/toolchain.h>

namespace lockstep::worker {

/// All of them. Constant.
[[nodiscard]] const std::string& kernel_prelude(Target target);
/// A compile unit: what `kernels` use of the prelude, and `kernels`. A pure function of the two.
[[nodiscard]] std::string unit_text(Target target, std::string_view kernels);

}  // namespace lockstep::worker
