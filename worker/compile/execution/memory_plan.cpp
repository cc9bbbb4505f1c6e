#include <algorithm>
#include <numeric>

#include <lockstep/worker/compile/execution/memory_plan.h>

namespace lockstep::worker {

MemoryPlan plan_memory(std::span<const MemoryRequest> requests) {
  MemoryPlan plan;
  plan.offsets.resize(requests.size());
  std::vector<std::size_t> order(requests.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return requests[i].first; });
  const auto end_of = [&](std::size_t i) {
    const std::size_t end = plan.offsets[i] + requests[i].bytes;
    return (end + MemoryPlan::kAlignment - 1) / MemoryPlan::kAlignment * MemoryPlan::kAlignment;
  };
  std::vector<std::size_t> placed;  // requests still in memory, by offset
  for (const std::size_t i : order) {
    std::erase_if(placed, [&](std::size_t j) { return requests[j].last < requests[i].first; });
    std::size_t at = 0;
    for (const std::size_t j : placed) {
      if (at + requests[i].bytes <= plan.offsets[j]) break;
      at = std::max(at, end_of(j));
    }
    plan.offsets[i] = at;
    placed.insert(
        std::ranges::upper_bound(placed, at, {}, [&](std::size_t j) { return plan.offsets[j]; }),
        i);
    plan.bytes = std::max(plan.bytes, end_of(i));
  }
  return plan;
}

}  // namespace lockstep::worker
