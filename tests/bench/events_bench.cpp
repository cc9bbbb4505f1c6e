// The event-driven simulation of whole jobs: how many events (a message, a timer, the end of a
// rank's own work) one core takes a second, without faults and with them.
#include <string>

#include <benchmark/benchmark.h>

#include <lockstep/worker/simulator/cluster/timed_run.h>

namespace lockstep::worker::simulator {
namespace {

constexpr int kCalls = 100;

Result<Scenario> scenario(int ranks, const std::string& faults) {
  return parse_scenario(
      R"({"format": "lockstep.scenario/1", "world_size": )" + std::to_string(ranks) +
          R"(, "generator": {"calls": [{"frame": "step", "repeat": )" + std::to_string(kCalls) +
          R"(, "values": {"x": {"tensor": [{"uniform": [2, 9], "per": "call"}, 16]}}}]},
              "faults": {"list": [)" +
          faults + "]}}",
      "bench");
}

void run(benchmark::State& state, const std::string& faults) {
  const auto job = scenario(static_cast<int>(state.range(0)), faults);
  if (!job) return state.SkipWithError(job.error().message.c_str());
  std::uint64_t events = 0;
  for (auto _ : state) {
    const TimedRun result = timed_run(*job, *job->faults, job->faults->list);
    if (result.calls.empty()) state.SkipWithError("no call came to an end");
    events += result.events;
  }
  state.counters["events"] = static_cast<double>(events) / static_cast<double>(state.iterations());
  state.counters["events_per_s"] =
      benchmark::Counter(static_cast<double>(events), benchmark::Counter::kIsRate);
}

void BM_NoFaults(benchmark::State& state) { run(state, ""); }

/// A pause, slow ranks, a late one, a branch and a compiler that fails, none of which ends the job.
void BM_FaultsThatAreWaitedFor(benchmark::State& state) {
  run(state, R"({"fault": "stopped", "count": 3, "at_s": [1, 9], "for_s": 5},
                {"fault": "slow", "count": 8, "delay_s": 0.03},
                {"fault": "late", "count": 2, "call": [10, 40], "delay_s": 20},
                {"fault": "branch", "count": 5, "call": 50},
                {"fault": "compile_fails", "count": 4})");
}

/// The last call finds a rank gone, or suspended.
void BM_ACrashAtTheEnd(benchmark::State& state) {
  run(state, R"({"fault": "crashed", "count": 1, "call": 99})");
}
void BM_AStopAtTheEnd(benchmark::State& state) {
  run(state, R"({"fault": "stopped", "count": 1, "call": 99})");
}

void sizes(benchmark::internal::Benchmark* bench) {
  for (const int ranks : {64, 1024, 16'384}) bench->Arg(ranks);
  bench->Unit(benchmark::kMillisecond);
}
BENCHMARK(BM_NoFaults)->Apply(sizes);
BENCHMARK(BM_FaultsThatAreWaitedFor)->Apply(sizes);
BENCHMARK(BM_ACrashAtTheEnd)->Apply(sizes);
BENCHMARK(BM_AStopAtTheEnd)->Apply(sizes);

}  // namespace
}  // namespace lockstep::worker::simulator

BENCHMARK_MAIN();
