// Two sides of a comparison on one device, in alternating batches within one process.
#pragma once

#include <functional>
#include <vector>

#include <lockstep/collectives/base/status.h>

namespace lockstep::bench {

/// Over batches, each in the order floor, ours, ours, floor.
struct PairedTimes {
  double floor_s = 0, ours_s = 0;  // medians of one call
  double ratio = 0;                // median over batches of floor / ours
  double low = 0, high = 0;        // its 95 % interval from order statistics
};

/// `floor` and `ours` start one call; `wait` returns when all that was started is done. Both are
/// warmed up by one batch. Errors: the first of theirs.
struct Sides {
  std::function<Result<void>()> floor, ours, wait;
};
[[nodiscard]] Result<PairedTimes> paired_times(const Sides& sides, int batches, int calls);

/// Seconds of so many calls and the wait behind them, per call.
[[nodiscard]] Result<double> batch_s(const std::function<Result<void>()>& call,
                                     const std::function<Result<void>()>& wait, int calls);

/// 0 of none.
[[nodiscard]] double median(std::vector<double> values);

}  // namespace lockstep::bench
