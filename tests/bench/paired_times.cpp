#include "paired_times.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace lockstep::bench {

Result<double> batch_s(const std::function<Result<void>()>& call,
                       const std::function<Result<void>()>& wait, int calls) {
  if (auto idle = wait(); !idle) return idle.error();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i)
    if (auto done = call(); !done) return done.error();
  if (auto done = wait(); !done) return done.error();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / calls;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

Result<PairedTimes> paired_times(const Sides& sides, int batches, int calls) {
  std::vector<double> floors, ours, ratios;
  for (int b = -1; b < batches; ++b) {  // the first one warms up
    double seconds[4] = {};
    for (int i = 0; i < 4; ++i) {
      const auto took = batch_s(i == 0 || i == 3 ? sides.floor : sides.ours, sides.wait, calls);
      if (!took) return took.error();
      seconds[i] = *took;
    }
    if (b < 0) continue;
    floors.push_back((seconds[0] + seconds[3]) / 2);
    ours.push_back((seconds[1] + seconds[2]) / 2);
    ratios.push_back(floors.back() / ours.back());
  }
  std::sort(ratios.begin(), ratios.end());
  const double half = 0.98 * std::sqrt(static_cast<double>(batches));
  const auto at = [&](double place) {
    return ratios[static_cast<std::size_t>(
        std::clamp(place, 0.0, static_cast<double>(batches - 1)))];
  };
  return PairedTimes{.floor_s = median(floors),
                     .ours_s = median(ours),
                     .ratio = median(ratios),
                     .low = at(batches / 2.0 - half),
                     .high = at(batches / 2.0 + half)};
}

}  // namespace lockstep::bench
