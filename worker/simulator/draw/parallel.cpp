#include <algorithm>
#include <atomic>
#include <thread>

#include <lockstep/worker/simulator/draw/parallel.h>

namespace lockstep::worker::simulator {

void in_parallel(std::size_t count, const std::function<void(std::size_t)>& share) {
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) share(i);
  };
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::jthread> others;
  for (std::size_t t = 1; t < std::min(count, cores); ++t) others.emplace_back(work);
  work();
}

std::vector<RankSet::Run> shares_of(std::int32_t size) {
  constexpr std::int32_t kRanks = 512;
  std::vector<RankSet::Run> out;
  for (std::int32_t first = 0; first < size; first += std::min(kRanks, size - first))
    out.push_back({first, first + std::min(kRanks, size - first) - 1});
  return out;
}

}  // namespace lockstep::worker::simulator
