// What a calibrated network says that a vote and an exchange of 1,000 sources take, against what
// they take. Prints a line per measure with the ratio of the two.
//
// usage: scripts/mpirun -n RANKS cost_bench NETWORK.json
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <mpi.h>

#include <lockstep/collectives/mpi.h>
#include <lockstep/worker/simulator/cluster/cost_report.h>
#include <lockstep/worker/simulator/cost/calibration.h>
#include <lockstep/worker/simulator/cost/network_file.h>

namespace {

using namespace lockstep;
using namespace lockstep::worker::simulator;

constexpr int kSources = 1000;

std::int64_t slowest(std::int64_t ns) {
  MPI_Allreduce(MPI_IN_PLACE, &ns, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
  return ns;
}

void line(const char* what, int ranks, std::int64_t measured, std::int64_t predicted) {
  const double ratio = static_cast<double>(predicted) / static_cast<double>(measured);
  std::puts(fmt::format("{:<10} n={:<3} measured {:>8}  predicted {:>8}  ratio {:.2f}{}", what,
                        ranks, duration_text(measured), duration_text(predicted), ratio,
                        ratio < 0.75 || ratio > 1.25 ? "  beyond 25 %" : "")
                .c_str());
}

}  // namespace

int main(int argc, char** argv) {
  const std::filesystem::path file = argc == 2 ? argv[1] : "";
  const auto network = load_network(file.stem().string(), file.parent_path().string());
  if (!network || !*network) {
    std::fputs("usage: cost_bench NAME.network (lockstep dryrun --calibrate stores one)\n", stderr);
    return 2;
  }
  MPI_Init(&argc, &argv);
  {
    const auto group = collectives::mpi_communicator(nullptr, {}).value();
    const int ranks = group->size();
    const bool crowded = ranks > (*network)->cores_per_host;
    const std::int64_t vote =
        slowest(vote_ns(*group, {.batches = 41, .calls = crowded ? 50 : 2000}).value());
    const std::int64_t exchange =
        slowest(exchange_ns(*group, kSources, {.batches = 41, .calls = crowded ? 5 : 50}).value());
    if (group->rank().value == 0) {
      line("vote", ranks, vote, predicted_vote_ns(**network, ranks));
      line("exchange", ranks, exchange, predicted_exchange_ns(**network, ranks, kSources));
    }
  }
  MPI_Finalize();
  return 0;
}
