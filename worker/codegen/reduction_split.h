// How many threads share one result of a reduction or a scan on a device: a pure function of the
// sizes that the group agreed on as hints, never of the device.
#pragma once

#include <cstdint>

namespace lockstep::worker {

struct Split {
  /// Threads of one block that take every lanes-th element and join their totals: 1, 32 or 256.
  int lanes = 1;
  /// Parts that other blocks take; a second kernel joins them. A power of two.
  std::int64_t pieces = 1;
  bool operator==(const Split&) const = default;
};

/// `outputs` totals of `reduced` elements each. `adjacent`: what is reduced lies side by side, so
/// neighbouring threads must share a total; otherwise they make neighbouring totals.
[[nodiscard]] Split split_reduction(std::int64_t outputs, std::int64_t reduced, bool adjacent);

/// Who makes a total whose order is written (sums/sum_order.h), whatever its size turns out to be:
/// it says only who makes which term.
enum class SumSplit : std::uint8_t {
  Alone,   // one thread
  Lanes,   // of rows: sixteen, one after another term
  Pieces,  // of rows sixteen threads a term, of columns one a batch; further kernels join these
};
/// `outputs` totals of `runs` runs of n elements each.
[[nodiscard]] SumSplit split_sum(std::int64_t outputs, std::int64_t runs, std::int64_t n,
                                 bool rows);

/// Whether the groups of `rows` scans over `elements` (sums/scan_order.h) are made at once: rows
/// alone are not enough work, and not short.
[[nodiscard]] bool split_scan(std::int64_t rows, std::int64_t elements);

}  // namespace lockstep::worker
