// Independent shares of one piece of work on the cores that there are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include <lockstep/collectives/base/rank.h>

namespace lockstep::worker::simulator {

/// Runs share(0) to share(count - 1), each once, in any order, on as many threads as there are
/// cores. Returns when all are done. The shares write to places of their own.
void in_parallel(std::size_t count, const std::function<void(std::size_t)>& share);

/// Ranks 0 to size-1 in runs that follow each other, some for every core.
[[nodiscard]] std::vector<RankSet::Run> shares_of(std::int32_t size);

}  // namespace lockstep::worker::simulator
