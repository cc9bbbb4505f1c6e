// How many threads share one result of a reduction or a scan on a device: a pure function of the
// sizes that the group agreed on as hints, never of the device.
#pragma once

#include <cstdint>

namespace lockstep::worker {

struct Split {
  /// Number of threads of one block that share a total, each taking every lanes-th element: 1, 32
  /// or 256.
  int lanes = 1;
  /// Number of parts into which a total is divided; a second kernel joins them. A power of two.
  std::int64_t pieces = 1;
  bool operator==(const Split&) const = default;
};

/// Returns the split for `outputs` totals of `reduced` elements each. With `adjacent` the reduced
/// elements are contiguous, so neighbouring threads must share a total. Without it, neighbouring
/// threads make neighbouring totals.
[[nodiscard]] Split split_reduction(std::int64_t outputs, std::int64_t reduced, bool adjacent);

/// Which threads make the terms of a sum of fixed order (sums/sum_order.h). Each choice is correct
/// for any size in the run: the order of the sum does not depend on the choice.
enum class SumSplit : std::uint8_t {
  Alone,   // one thread
  Lanes,   // rows: sixteen threads, one term after another
  Pieces,  // rows: sixteen threads per term; columns: one per batch; further kernels join them
};
/// Returns the split for `outputs` totals of `runs` runs of n elements each.
[[nodiscard]] SumSplit split_sum(std::int64_t outputs, std::int64_t runs, std::int64_t n,
                                 bool rows);

/// True if scans of `rows` rows of `elements` elements each make all groups (sums/scan_order.h) at
/// once: there are too few rows to keep a device busy, and they are not short.
[[nodiscard]] bool split_scan(std::int64_t rows, std::int64_t elements);

}  // namespace lockstep::worker
