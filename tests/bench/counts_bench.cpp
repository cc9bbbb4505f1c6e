// The exchange of counts that comes before rows are routed by what the data say: by way of the
// host, as a run on GPUs does it (read back, one small exchange of the ranks, uploaded), against a
// small all_to_all of NCCL's on the stream and the same read back. Either ends with the counts of
// all ranks at the host, which needs them for the next sizes, and on the device. Only the way over
// the host also tells whether a rank has failed.
//
// Every rank needs a GPU of its own; where there are too few it says so and exits with 7. On GPUs
// that are emulated it runs, and says that its times are no figures.
//
// usage: scripts/mpirun -n RANKS counts_bench [--batches N] [--calls N] [--out FILE]
// The ranks are joined as those of a job, so scripts/run-ranks in place of mpirun does as well.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "../collectives/census_tree.h"
#include "interleaved.h"
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <lockstep/collectives/base/board.h>
#include <lockstep/collectives/nccl/nccl.h>
#include <lockstep/collectives/tree.h>
#include <lockstep/worker/agree/process/settings.h>
#include <lockstep/worker/agree/process/world.h>
#include <lockstep/worker/compile/device/cuda_device.h>
#include <lockstep/worker/compile/run/carried_status.h>

namespace {

using namespace lockstep;
using collectives::Collective;
using worker::Device;
using worker::DeviceAddress;

/// The ranks of this run, once they are joined.
worker::World* joined = nullptr;

[[noreturn]] void give_up(const Status& status) {
  if (joined != nullptr && joined->all->size() > 1) joined->watch->end_job(status);
  fmt::print(stderr, "counts_bench: {}\n", status.text());
  std::_Exit(exit_code(status.code));
}

void require(const Result<void>& done) {
  if (!done) give_up(done.error());
}
template <class T>
T require(Result<T> result) {
  if (!result) give_up(result.error());
  return *std::move(result);
}

/// The smallest or largest of all ranks' numbers.
double reduced(collectives::Communicator& ranks, collectives::Reduce reduce, double mine) {
  double all = 0;
  require(ranks.run({.kind = Collective::Kind::AllReduce,
                     .dtype = DType::F64,
                     .reduce = reduce,
                     .send = &mine,
                     .receive = &all,
                     .rows = 1,
                     .label = "batch"}));
  return all;
}

/// This rank's place among those of its host.
int place_on_host(collectives::Communicator& ranks) {
  const Rank self = ranks.rank();
  collectives::TreeRound round(self, ranks.size(),
                               collectives::census_payload(self, fmt::to_string(host_id())),
                               collectives::join_census);
  require(ranks.run(round));
  for (const RankValue& host : collectives::census_values(round.result()))
    if (host.ranks.contains(self)) {
      int place = 0;
      for (int r = 0; r < self.value; ++r) place += host.ranks.contains(Rank{r}) ? 1 : 0;
      return place;
    }
  return 0;
}

/// The `local`th; null, and why, where this rank's host has fewer, or it cannot be opened.
std::shared_ptr<Device> own_device(int rank, int local, std::string& why) {
  const auto count = worker::cuda_device_count(Rank{rank});
  if (!count) {
    why = count.error().message;
    return nullptr;
  }
  if (local >= *count) {
    why = fmt::format("rank {} finds none left of the {} that its host has", rank, *count);
    return nullptr;
  }
  auto device = worker::open_cuda_device({.ordinal = local, .rank = Rank{rank}});
  if (device) return *std::move(device);
  why = device.error().message;
  return nullptr;
}

/// So many counts for each rank: what goes to rank p is told by rank and place alone, so that
/// whatever arrives can be checked.
class Counts {
 public:
  Counts(collectives::Communicator& ranks, Device& device, collectives::DeviceData& nccl,
         std::int64_t each)
      : ranks_(ranks),
        device_(device),
        nccl_(nccl),
        rows_(static_cast<std::size_t>(ranks.size()), each),
        sent_(rows_.size() * static_cast<std::size_t>(each)),
        by_nccl_(sent_.size()),
        by_host_(sent_.size()) {
    for (std::size_t i = 0; i < sent_.size(); ++i)
      sent_[i] = count(ranks.rank().value, static_cast<std::int64_t>(i));
    from_ = block(), to_ = block();
    require(device_.upload(from_, sent_.data(), bytes()));
    require(device_.synchronise());
  }
  ~Counts() {
    for (DeviceAddress at : {from_, to_}) (void)device_.free(at);
  }
  Counts(const Counts&) = delete;
  Counts& operator=(const Counts&) = delete;

  void by_nccl() {
    std::ranges::fill(by_nccl_, -1);
    require(nccl_.start(
        collective(reinterpret_cast<const void*>(from_), reinterpret_cast<void*>(to_))));
    require(device_.download(by_nccl_.data(), to_, bytes()));
    check(by_nccl_);
  }
  void by_host() {
    require(device_.download(sent_.data(), from_, bytes()));
    std::ranges::fill(by_host_, -1);
    if (require(carried_.all_to_all_with_status(ranks_, collective(sent_.data(), by_host_.data()),
                                                false)))
      give_up({Code::Internal, "a rank says that it has failed"});
    require(device_.upload(to_, by_host_.data(), bytes()));
    check(by_host_);
  }

 private:
  static std::int64_t count(int rank, std::int64_t place) { return 1000 * rank + place; }

  DeviceAddress block() {
    const auto taken = require(device_.allocate(bytes()));
    if (!taken) give_up({Code::Environment, "the device has no memory for the counts"});
    return *taken;
  }
  [[nodiscard]] std::size_t bytes() const { return sent_.size() * sizeof(std::int64_t); }
  [[nodiscard]] Collective collective(const void* send, void* receive) const {
    return {.kind = Collective::Kind::AllToAll,
            .dtype = DType::I64,
            .send = send,
            .receive = receive,
            .rows = static_cast<std::int64_t>(sent_.size()),
            .send_rows = rows_,
            .receive_rows = rows_,
            .label = "counts"};
  }
  void check(const std::vector<std::int64_t>& got) const {
    const std::int64_t each = rows_[0];
    for (std::size_t i = 0; i < got.size(); ++i) {
      const auto place = static_cast<std::int64_t>(i);
      const auto from = static_cast<int>(place / each);
      if (got[i] != count(from, ranks_.rank().value * each + place % each))
        give_up({Code::Internal, "other counts arrived than were sent"});
    }
  }

  collectives::Communicator& ranks_;
  Device& device_;
  collectives::DeviceData& nccl_;
  std::vector<std::int64_t> rows_, sent_, by_nccl_, by_host_;
  DeviceAddress from_{}, to_{};
  worker::CarriedStatus carried_;
};

bench::Together together(collectives::Communicator& ranks) {
  bench::Together out;
  out.rank = ranks.rank().value, out.size = ranks.size();
  out.barrier = [&ranks] { (void)reduced(ranks, collectives::Reduce::Max, 0); };
  out.slowest = [&ranks](double mine) { return reduced(ranks, collectives::Reduce::Max, mine); };
  out.seconds = [] {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double>(now).count();
  };
  return out;
}

bool emulated(const Device& device) {
  return device.unit_name().find("656d756c-6174-6564") != std::string::npos;  // "emulated"
}

/// Collective over ranks that have a device each.
bool compare(collectives::Communicator& ranks, Device& device, int batches, int calls,
             std::string out) {
  const int rank = ranks.rank().value;
  collectives::NcclId id{};
  if (rank == 0) id = require(collectives::nccl_unique_id(Rank{0}));
  require(ranks.run({.kind = Collective::Kind::Broadcast,
                     .dtype = DType::U8,
                     .receive = id.data(),
                     .rows = static_cast<std::int64_t>(id.size()),
                     .label = "id"}));
  const auto nccl =
      require(collectives::connect_nccl({.rank = rank,
                                         .size = ranks.size(),
                                         .id = id,
                                         .ordinal = device.ordinal(),
                                         .device_name = device.name(),
                                         .stream = device.stream(worker::DeviceStream::Work)}));
  if (rank == 0 && emulated(device)) {
    fmt::print(stderr, "counts_bench: no figures: the devices are emulated on this processor\n");
    out.clear();
  }
  Counts one(ranks, device, *nccl, 1), eight(ranks, device, *nccl, 8);
  return bench::run_pairs(together(ranks), "counts_bench",
                          {{"counts/1", calls, [&] { one.by_nccl(); }, [&] { one.by_host(); }},
                           {"counts/8", calls, [&] { eight.by_nccl(); }, [&] { eight.by_host(); }}},
                          batches, out);
}

}  // namespace

int main(int argc, char** argv) {
  int batches = 41, calls = 200;
  std::string out;
  CLI::App app("The exchange of counts by way of the host against one by NCCL");
  app.add_option("--batches", batches, "Pairs of batches")->check(CLI::Range(3, 10000));
  app.add_option("--calls", calls, "Calls per batch")->check(CLI::Range(1, 100000));
  app.add_option("--out", out, "JSON file");
  CLI11_PARSE(app, argc, argv);

  const auto settings = require(worker::Settings::from_environment());
  worker::WorldOptions joining;
  joining.deadline = settings.deadline;
  require(worker::find_ranks(joining, settings, "counts_bench"));
  worker::World world = require(worker::join_world(joining));
  joined = &world;
  collectives::Communicator& ranks = *world.all;
  const int rank = ranks.rank().value;
  std::string why;
  const std::shared_ptr<Device> device = own_device(rank, place_on_host(ranks), why);
  // The lowest rank without one says so for all.
  const int none = ranks.size();
  const auto first = static_cast<int>(
      reduced(ranks, collectives::Reduce::Min, static_cast<double>(device ? none : rank)));
  if (first == none) return compare(ranks, *device, batches, calls, out) ? 0 : 1;
  if (rank == first)
    fmt::print(stderr, "counts_bench: every rank needs a GPU of its own: {}\n", why);
  return exit_code(Code::Environment);
}
