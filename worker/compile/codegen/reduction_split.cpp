#include <algorithm>
#include <bit>

#include <lockstep/worker/compile/codegen/reduction_split.h>
#include <lockstep/worker/compile/sums/scan_order.h>

namespace lockstep::worker {
namespace {

// Threads that keep a large device busy; more parts would only cost a second kernel.
constexpr std::int64_t kThreads = std::int64_t{1} << 18;
// Elements per thread below which joining would be most of the work.
constexpr std::int64_t kPerThread = 16;
constexpr std::int64_t kMaxPieces = 1024;
constexpr std::int64_t kMaxScanRows = 2048;

std::int64_t power_below(std::int64_t n, std::int64_t most) {
  if (n <= 1) return 1;
  return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(std::min(n, most))));
}

}  // namespace

Split split_reduction(std::int64_t outputs, std::int64_t reduced, bool adjacent) {
  Split out;
  if (adjacent && reduced >= 32) out.lanes = reduced >= 2048 ? 256 : 32;
  const std::int64_t threads = std::max<std::int64_t>(outputs, 1) * out.lanes;
  if (threads >= kThreads) return out;
  out.pieces =
      power_below(std::min(kThreads / threads, reduced / (out.lanes * kPerThread)), kMaxPieces);
  // A factor of two is not worth another launch.
  if (out.pieces < 4) out.pieces = 1;
  return out;
}

SumSplit split_sum(std::int64_t outputs, std::int64_t runs, std::int64_t n, bool rows) {
  if (rows && n < 2 * kSumLanes) return SumSplit::Alone;
  const std::int64_t part = rows ? kSumBlock : kSumFew * kSumTerms;
  const std::int64_t threads = std::max<std::int64_t>(outputs, 1) * (rows ? kSumLanes : 1);
  // Fewer than four parts are not worth two more launches.
  if (threads < kThreads && runs * n >= 4 * part) return SumSplit::Pieces;
  return rows ? SumSplit::Lanes : SumSplit::Alone;
}

bool split_scan(std::int64_t rows, std::int64_t elements) {
  // Fewer groups are not worth three more launches.
  return elements >= 4 * kScanGroup && rows <= kMaxScanRows;
}

}  // namespace lockstep::worker
