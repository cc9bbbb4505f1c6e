// The parts of a prelude for sums of floats, in the order of sums/sum_order.h, and for scans, in
// the order of sums/scan_order.h.
#pragma once

#include <string_view>

namespace lockstep::worker {

/// The first two are for all targets, the third is only for the host, the fourth only for CUDA.
[[nodiscard]] std::string_view sums_prelude();
[[nodiscard]] std::string_view scans_prelude();
[[nodiscard]] std::string_view host_sums_prelude();
[[nodiscard]] std::string_view cuda_sums_prelude();

}  // namespace lockstep::worker
