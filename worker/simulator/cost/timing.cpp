#include <algorithm>

#include <lockstep/worker/simulator/cost/timing.h>

namespace lockstep::worker::simulator {

Percentiles percentiles(std::span<std::int64_t> times) {
  if (times.empty()) return {};
  std::size_t from = 0;
  const auto at = [&](std::size_t hundredths) {
    const std::size_t place = (times.size() * hundredths + 99) / 100 - 1;
    std::nth_element(times.begin() + static_cast<std::ptrdiff_t>(from),
                     times.begin() + static_cast<std::ptrdiff_t>(place), times.end());
    from = place;
    return times[place];
  };
  return {at(50), at(90), at(99), at(100)};
}

std::int64_t sum_of_times(std::int64_t a, std::int64_t b) { return std::min(a + b, kLongestSum); }

}  // namespace lockstep::worker::simulator
