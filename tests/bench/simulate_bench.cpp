// Dry runs at the size of the largest jobs: every rank with sizes of its own, drawn while it runs;
// ranks in 16 classes; and the start of the binary with nothing to do. Beside the first stands the
// floor of a way that would hold a call's values: one pass over them in memory.
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <lockstep/worker/simulator/cluster/dry_run.h>
#include <lockstep/worker/simulator/draw/parallel.h>

namespace lockstep::worker::simulator {
namespace {

constexpr int kRanks = 131'072, kTensors = 256, kDims = 4, kCalls = 100;

std::string scenario_text(const std::string& size) {
  std::string values;
  for (int t = 0; t < kTensors; ++t) {
    values += (t == 0 ? "\"x" : ", \"x") + std::to_string(t) + "\": {\"tensor\": [";
    for (int d = 0; d < kDims; ++d) values += (d == 0 ? "" : ", ") + size;
    values += "]}";
  }
  return R"({"format": "lockstep.scenario/1", "world_size": )" + std::to_string(kRanks) +
         R"(, "generator": {"seed": 1, "calls": [{"frame": "step", "repeat": )" +
         std::to_string(kCalls) + R"(, "values": {)" + values + "}}]}}";
}

double peak_mebibytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void run(benchmark::State& state, const Scenario& scenario) {
  const DryRunResult result = dry_run(scenario, {.counterfactual = false});
  const Totals sum = totals(result);
  if (sum.errors != 0 || sum.compiles == 0) state.SkipWithError("the calls did not come through");
  state.counters["compiles"] = static_cast<double>(sum.compiles);
}

void run_generated(benchmark::State& state, const std::string& size) {
  const std::string text = scenario_text(size);
  for (auto _ : state) {
    const auto scenario = parse_scenario(text, "bench");
    if (!scenario) return state.SkipWithError(scenario.error().message.c_str());
    run(state, *scenario);
  }
  state.counters["peak_MiB"] = peak_mebibytes();
  state.counters["s_per_call"] = benchmark::Counter(
      kCalls, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

/// A size below 2 can be drawn and never is, so every value of every call has to be made to know
/// that the entry fits.
void BM_EveryRankDifferent(benchmark::State& state) {
  run_generated(state, R"({"uniform": [0, 1125899906842624]})");
}

/// What can be drawn lies within the bounds of the entry, so a call that runs it needs no values.
void BM_EveryRankDifferentWithinBounds(benchmark::State& state) {
  run_generated(state, R"({"uniform": [2, 4096]})");
}

/// Every 16th part of the world draws for itself.
void BM_SixteenClassesDrawn(benchmark::State& state) {
  run_generated(state, R"({"uniform": [0, 1125899906842624], "per": {"ranks": 8192}})");
}

/// The same inputs for every 16th part of the world, which the scenario spells out.
void BM_SixteenClasses(benchmark::State& state) {
  constexpr int kClasses = 16;
  Scenario scenario{.world_size = kRanks, .config = {}, .calls = {}, .generator = {}};
  for (int c = 0; c < kCalls; ++c) {
    ScenarioCall& call = scenario.calls.emplace_back();
    call.frame = "step";
    call.present = RankSet::all(kRanks);
    for (int g = 0; g < kClasses; ++g) {
      ScenarioGroup group{{}, "step", {}};
      group.ranks.insert({g * (kRanks / kClasses), (g + 1) * (kRanks / kClasses) - 1});
      for (int t = 0; t < kTensors; ++t) {
        ScenarioValue value{.sizes = {}, .strides = {}, .marks = {}};
        for (int d = 0; d < kDims; ++d)
          value.sizes.push_back(2 + (c * 7919 + g * 613 + t * 31 + d * 5) % 4095);
        group.values["x" + std::to_string(t)] = std::move(value);
      }
      call.groups.push_back(std::move(group));
    }
  }
  for (auto _ : state) run(state, scenario);
}

/// One pass over the values of one call, on all cores.
void BM_FloorOfOneCall(benchmark::State& state) {
  const std::vector<std::int64_t> values(std::size_t{kRanks} * kTensors * kDims, 3);
  const std::vector<RankSet::Run> shares = shares_of(kRanks);
  std::vector<std::int64_t> sums(shares.size());
  for (auto _ : state) {
    in_parallel(shares.size(), [&](std::size_t i) {
      const auto at = [&](std::int32_t rank) {
        return values.begin() + std::ptrdiff_t{rank} * kTensors * kDims;
      };
      sums[i] = std::accumulate(at(shares[i].first), at(shares[i].last + 1), std::int64_t{0});
    });
    benchmark::DoNotOptimize(sums.data());
  }
}

/// The binary, with a small scenario.
void BM_StartUp(benchmark::State& state) {
  for (auto _ : state)
    if (std::system(LOCKSTEP_BINARY " dryrun " LOCKSTEP_TINY_SCENARIO " --json > /dev/null") != 0)
      return state.SkipWithError("the binary did not run");
}

// Memory first: the floor holds a gibibyte.
BENCHMARK(BM_EveryRankDifferent)->Iterations(1)->UseRealTime()->Unit(benchmark::kSecond);
BENCHMARK(BM_EveryRankDifferentWithinBounds)
    ->Iterations(1)
    ->UseRealTime()
    ->Unit(benchmark::kSecond);
BENCHMARK(BM_SixteenClassesDrawn)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(BM_SixteenClasses)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(BM_FloorOfOneCall)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(BM_StartUp)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lockstep::worker::simulator

BENCHMARK_MAIN();
