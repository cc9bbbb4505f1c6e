// What `lockstep dryrun --calibrate` becomes under mpirun: measures the cost of messages among 2,
// 4, 8 and so on up to all ranks of this host, stores the fitted model and prints how well it fits.
// usage: mpirun -n RANKS lockstep_network_probe NAME FOLDER
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <mpi.h>
#include <sched.h>
#include <sys/stat.h>

#include <lockstep/collectives/mpi.h>
#include <lockstep/worker/cli/subcommand.h>
#include <lockstep/worker/simulator/cluster/cost_report.h>
#include <lockstep/worker/simulator/cost/calibration.h>
#include <lockstep/worker/simulator/cost/network_file.h>

namespace {

using namespace lockstep;
using namespace lockstep::worker;
using collectives::Communicator;

constexpr int kSources = 1000;

/// Returns the number of processors on which at least one rank may run. Collective.
int cores() {
  cpu_set_t mine, all;
  CPU_ZERO(&mine);
  (void)sched_getaffinity(0, sizeof mine, &mine);
  MPI_Allreduce(&mine, &all, sizeof all, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
  return std::max(1, CPU_COUNT(&all));
}

/// Lets ranks that are not measured sleep until the others are done. Collective.
void meet_asleep() {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  for (int done = 0; done == 0;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

/// Returns the longest of the ranks' times. Collective.
std::int64_t slowest(std::int64_t ns) {
  std::int64_t out = 0;
  MPI_Allreduce(&ns, &out, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
  return out;
}

class Probe {
 public:
  explicit Probe(Communicator& all) : all_(all) {}

  /// Measures at each number of ranks. Errors: those of the rounds; Environment.
  Result<void> run() {
    measured_.cores = cores();
    for (int ranks = 2; ranks <= all_.size(); ranks = next(ranks))
      if (auto done = measure(ranks); !done) return done;
    return {};
  }
  [[nodiscard]] const simulator::Measured& measured() const { return measured_; }

 private:
  /// Returns the number of ranks to measure next: twice as many, but at most all ranks. After all
  /// ranks, returns a greater number, which ends the loop.
  [[nodiscard]] int next(int ranks) const {
    if (ranks == all_.size()) return ranks + 1;
    return std::min(2 * ranks, all_.size());
  }

  Result<void> measure(int ranks) {
    const int me = all_.rank().value;
    simulator::Measured::Group times{.ranks = ranks};
    std::int64_t transfer = 0;
    if (me < ranks) {
      const auto group = collectives::mpi_group(all_, RankSet::range(Rank{0}, Rank{ranks - 1}),
                                                static_cast<std::uint64_t>(ranks), "probe");
      if (!group) return group.error();
      const bool crowded = ranks > measured_.cores;
      const simulator::Effort many{.batches = 41, .calls = crowded ? 50 : 2000};
      const simulator::Effort few{.batches = 41, .calls = crowded ? 5 : 50};
      const auto vote = simulator::vote_ns(**group, many);
      if (!vote) return vote.error();
      const auto exchange = simulator::exchange_ns(**group, kSources, few);
      if (!exchange) return exchange.error();
      times.vote_ns = *vote, times.exchange_ns = *exchange;
      if (ranks == 2) {
        const auto both =
            simulator::round_trip_ns(**group, simulator::exchange_bytes(2, kSources).down, few);
        if (!both) return both.error();
        transfer = *both;
      }
    }
    meet_asleep();
    if (ranks == 2) {
      if (me == 0) measured_.join_bytes_per_us = simulator::joined_per_us(kSources, {});
      meet_asleep();
      measured_.sources = kSources;
      measured_.bytes = simulator::exchange_bytes(2, kSources).down;
      measured_.round_trip_ns = slowest(transfer);
    }
    times.vote_ns = slowest(times.vote_ns);
    times.exchange_ns = slowest(times.exchange_ns);
    measured_.groups.push_back(times);
    return {};
  }

  Communicator& all_;
  simulator::Measured measured_;
};

/// Returns a table that compares the model with the measurements.
std::string table(const simulator::NetworkModel& network, const Probe& probe) {
  std::string out = fmt::format(
      "latency {}, {} MB/s, joins {} MB/s, reads {} MB/s of payload; {} cores\n"
      "ranks   vote: measured  predicted  ratio   exchange of {} sources: measured  predicted  "
      "ratio\n",
      simulator::duration_text(network.within.latency_ns), network.within.bytes_per_us,
      network.join_bytes_per_us, network.read_bytes_per_us, network.cores_per_host, kSources);
  for (const simulator::Measured::Group& times : probe.measured().groups) {
    const std::int64_t vote = simulator::predicted_vote_ns(network, times.ranks);
    const std::int64_t exchange = simulator::predicted_exchange_ns(network, times.ranks, kSources);
    const auto ratio = [](std::int64_t a, std::int64_t b) {
      return static_cast<double>(a) / static_cast<double>(std::max<std::int64_t>(1, b));
    };
    out += fmt::format("{:<7} {:>14}  {:>9}  {:>5.2f}   {:>34}  {:>9}  {:>5.2f}\n", times.ranks,
                       simulator::duration_text(times.vote_ns), simulator::duration_text(vote),
                       ratio(vote, times.vote_ns), simulator::duration_text(times.exchange_ns),
                       simulator::duration_text(exchange), ratio(exchange, times.exchange_ns));
  }
  return out;
}

/// On rank 0: writes the model to its file, which only its user may read, and the table to stdout.
int report(const Probe& probe, const std::string& name, const std::string& folder) {
  const simulator::NetworkModel network = simulator::fitted(probe.measured());
  std::error_code failed;
  std::filesystem::create_directories(std::filesystem::path(folder).parent_path(), failed);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return cli::complain(
        fmt::format("the folder {} cannot be made: {}.", folder, std::strerror(errno)),
        cli::kEnvironment);
  const std::string file = simulator::network_file(name, folder);
  const Bytes bytes = simulator::network_bytes(network);
  if (auto kept = cli::write_whole(
          "The network", file, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, 0600);
      !kept)
    return cli::complain(kept.error());
  return cli::print_result(table(network, probe) + fmt::format("stored: {}\n", file), cli::kOk);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return cli::kUsage;
  auto session = collectives::MpiSession::open();
  if (!session) return cli::complain(session.error());
  const auto all = collectives::mpi_communicator(nullptr, {});
  if (!all) return cli::complain(all.error());
  int code = cli::kOk;
  const bool first = (*all)->rank().value == 0;
  if ((*all)->size() < 2) {
    code =
        cli::complain("calibration measures messages between ranks: start 2 or more.", cli::kUsage);
  } else {
    Probe probe(**all);
    if (const auto done = probe.run(); !done)
      code = cli::complain(done.error());
    else if (first)
      code = report(probe, argv[1], argv[2]);
  }
  MPI_Bcast(&code, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return code;
}
