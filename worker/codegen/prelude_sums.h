// The part of a prelude that adds up floats, in the order of sums/sum_order.h, and that of scans,
// in the order of sums/scan_order.h.
#pragma once

#include <string_view>

namespace lockstep::worker {

/// Of every target; then what the host has besides, and CUDA.
[[nodiscard]] std::string_view sums_prelude();
[[nodiscard]] std::string_view scans_prelude();
[[nodiscard]] std::string_view host_sums_prelude();
[[nodiscard]] std::string_view cuda_sums_prelude();

}  // namespace lockstep::worker
