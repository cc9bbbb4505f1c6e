// Runs independent parts ("shares") of some work on all cores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include <lockstep/collectives/base/rank.h>

namespace lockstep::worker::simulator {

/// Runs share(0) to share(count - 1), each once, in any order, on as many threads as there are
/// cores. Returns when all are done. Each share writes only to its own memory.
void in_parallel(std::size_t count, const std::function<void(std::size_t)>& share);

/// Returns ranks 0 to size-1 in consecutive runs of at most 512 ranks.
[[nodiscard]] std::vector<RankSet::Run> shares_of(std::int32_t size);

}  // namespace lockstep::worker::simulator
