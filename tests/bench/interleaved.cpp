#include "interleaved.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <thread>

#include <fmt/format.h>

namespace lockstep::bench {
namespace {

struct Figures {
  double floor_us, ours_us, ratio, low, high;
  std::vector<double> ours_batches_us;
};

/// Time per call of one batch, the slowest rank's.
double batch_us(const Together& ranks, const std::function<void()>& prepare,
                const std::function<void()>& call, int calls) {
  if (prepare) prepare();
  ranks.barrier();
  const double begin = ranks.seconds();
  for (int i = 0; i < calls; ++i) call();
  return ranks.slowest((ranks.seconds() - begin) * 1e6 / calls);
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

/// Each batch in the order floor, ours, ours, floor, so that what the one leaves in the caches for
/// the other cancels. The median of the ratios; its 95 % interval from order statistics.
Figures measure(const Together& ranks, const Pair& pair, int batches) {
  const auto floor = [&] { return batch_us(ranks, pair.prepare_floor, pair.floor, pair.calls); };
  const auto our = [&] { return batch_us(ranks, pair.prepare_ours, pair.ours, pair.calls); };
  (void)floor(), (void)our();
  std::vector<double> floors, ours, ratios;
  for (int b = 0; b < batches; ++b) {
    const double before = floor();
    const double first = our();
    const double mine = (first + our()) / 2;
    floors.push_back((before + floor()) / 2);
    ours.push_back(mine);
    ratios.push_back(mine / floors.back());
  }
  const std::vector<double> batches_us = ours;
  std::sort(ratios.begin(), ratios.end());
  const double half = 0.98 * std::sqrt(static_cast<double>(batches));
  const auto at = [&](double place) {
    return ratios[static_cast<std::size_t>(
        std::clamp(place, 0.0, static_cast<double>(batches - 1)))];
  };
  return {median(floors),           median(ours), median(ratios), at(batches / 2.0 - half),
          at(batches / 2.0 + half), batches_us};
}

nlohmann::json benchmark_entry(const std::string& name, double us, int batches) {
  return {{"name", name},          {"run_type", "aggregate"}, {"aggregate_name", "median"},
          {"iterations", batches}, {"real_time", us},         {"cpu_time", us},
          {"time_unit", "us"}};
}

}  // namespace

nlohmann::json machine() {
  std::ifstream cpu("/proc/cpuinfo");
  std::string model = "unknown";
  for (std::string line; std::getline(cpu, line);)
    if (line.starts_with("model name")) {
      model = line.substr(line.find(':') + 2);
      break;
    }
  double load = 0;
  std::ifstream("/proc/loadavg") >> load;
  return {{"cpu", model}, {"cores", std::thread::hardware_concurrency()}, {"load", load}};
}

bool run_pairs(const Together& ranks, const std::string& program, const std::vector<Pair>& pairs,
               int batches, const std::string& out) {
  const int rank = ranks.rank, size = ranks.size;
  nlohmann::json result{{"context", machine()}};
  result["context"].update({{"executable", program}, {"ranks", size}});
  for (const Pair& pair : pairs) {
    const Figures f = measure(ranks, pair, batches);
    if (rank != 0) continue;
    fmt::print("n={} {:44} floor {:10.3f} us  ours {:10.3f} us  ratio {:.3f} [{:.3f}, {:.3f}]\n",
               size, pair.name, f.floor_us, f.ours_us, f.ratio, f.low, f.high);
    std::fflush(stdout);
    result["benchmarks"].push_back(benchmark_entry(pair.name + "/floor", f.floor_us, batches));
    auto ours = benchmark_entry(pair.name + "/ours", f.ours_us, batches);
    ours.update({{"ratio", f.ratio}, {"ratio_low", f.low}, {"ratio_high", f.high}});
    ours["batches_us"] = f.ours_batches_us;
    if (pair.target > 0) ours["target"] = pair.target;
    result["benchmarks"].push_back(ours);
  }
  if (rank != 0 || out.empty()) return true;
  return static_cast<bool>((std::ofstream(out) << result.dump(2) << '\n').flush());
}

}  // namespace lockstep::bench
