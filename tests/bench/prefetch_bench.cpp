// What a call still waits for its agreement where it was prefetched under a step of 2 ms: twenty
// kernels with a poke between them, or one long kernel without. Against the whole agreement where
// nothing was prefetched. Prints medians and 90th percentiles and writes Google-Benchmark JSON.
//
// usage: scripts/mpirun -n RANKS prefetch_bench [--steps N] [--out FILE]
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "interleaved.h"
#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <mpi.h>

#include <lockstep/collectives/mpi.h>
#include <lockstep/worker/agreement.h>

namespace {

using namespace lockstep;
using namespace lockstep::worker;
using namespace std::chrono_literals;

struct Case {
  const char* name;
  int kernels;  // of 2 ms together, with a poke between them
  bool asleep;  // the core is free meanwhile, as while an accelerator works
  bool prefetch;
};

constexpr Case kCases[] = {
    {"agreement/plain/20_kernels", 20, false, false},
    {"agreement/prefetched/20_kernels", 20, false, true},
    {"agreement/prefetched/1_kernel", 1, false, true},
    {"agreement/plain/20_kernels_asleep", 20, true, false},
    {"agreement/prefetched/20_kernels_asleep", 20, true, true},
};

void kernel(Duration time, bool asleep) {
  if (asleep) return std::this_thread::sleep_for(time);
  const SystemClock clock;
  for (const Instant end = clock.now() + time; clock.now() < end;) {
  }
}

/// Microseconds that each call took to agree, on this rank.
std::vector<double> agreements(Agreement& agreement, const Case& c, int steps) {
  const Observation seen = ObservationBuilder().tensor("x", {5, 3}).build();
  const Agreement::Build build = [](int, const Decision& decision) -> Result<Built> {
    return Built{decision.digest(), {}};
  };
  std::vector<double> out;
  const SystemClock clock;
  for (int s = 0; s < steps; ++s) {
    if (c.prefetch) agreement.prefetch("step", seen);
    for (int k = 0; k < c.kernels; ++k) {
      if (k > 0) agreement.poke();
      kernel(2ms / c.kernels, c.asleep);
    }
    // A step has collectives of its own, which is where ranks wait for each other.
    MPI_Barrier(MPI_COMM_WORLD);
    const Instant start = clock.now();
    if (!agreement.agree("step", seen, build)) std::abort();
    out.push_back(std::chrono::duration<double, std::micro>(clock.now() - start).count());
  }
  return out;
}

double at_quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
}

/// The slowest rank's.
double slowest(double mine) {
  double most = 0;
  MPI_Allreduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return most;
}

nlohmann::json measured(Agreement& agreement, const Case& c, int steps, int rank, int size) {
  (void)agreements(agreement, c, 20);
  const std::vector<double> mine = agreements(agreement, c, steps);
  const double median = slowest(at_quantile(mine, 0.5)), high = slowest(at_quantile(mine, 0.9));
  if (rank == 0)
    fmt::print("n={} {:40} median {:9.3f} us  p90 {:9.3f} us\n", size, c.name, median, high);
  nlohmann::json entry{{"name", c.name},
                       {"run_name", c.name},
                       {"run_type", "aggregate"},
                       {"aggregate_name", "median"},
                       {"iterations", steps},
                       {"real_time", median},
                       {"cpu_time", median},
                       {"time_unit", "us"},
                       {"p90", high}};
  if (c.prefetch && c.kernels > 1 && size <= 4) entry["target"] = 1.0;
  return entry;
}

}  // namespace

int main(int argc, char** argv) {
  int steps = 300;
  std::string out;
  CLI::App app("What is left of an agreement that was prefetched");
  app.add_option("--steps", steps, "Steps of 2 ms per case")->check(CLI::Range(10, 1000000));
  app.add_option("--out", out, "JSON file");
  CLI11_PARSE(app, argc, argv);

  MPI_Init(&argc, &argv);
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  nlohmann::json result{{"context", bench::machine()}};
  result["context"].update({{"executable", "prefetch_bench"}, {"ranks", size}});
  {
    const auto board = collectives::mpi_board(nullptr).value();
    const auto watch = collectives::Watch::start(*board, Rank{rank}, {}).value();
    const auto group = collectives::mpi_communicator(nullptr, {.watch = watch.get()}).value();
    Agreement agreement(*group, "world", {});
    for (const Case& c : kCases)
      result["benchmarks"].push_back(measured(agreement, c, steps, rank, size));
  }
  MPI_Finalize();
  if (rank != 0 || out.empty()) return 0;
  return (std::ofstream(out) << result.dump(2) << '\n').flush() ? 0 : 1;
}
