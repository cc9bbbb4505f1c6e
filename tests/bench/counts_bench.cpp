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
#include <algorithm>
#include <cstdlib>
#include <utility>

#include "interleaved.h"
#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <mpi.h>

#include <lockstep/collectives/mpi.h>
#include <lockstep/collectives/nccl.h>
#include <lockstep/worker/carried_status.h>
#include <lockstep/worker/cuda_device.h>

namespace {

using namespace lockstep;
using collectives::Collective;
using worker::Device;
using worker::DeviceAddress;

[[noreturn]] void give_up(const Status& status) {
  fmt::print(stderr, "counts_bench: {}\n", status.text());
  MPI_Abort(MPI_COMM_WORLD, exit_code(status.code));
  std::abort();
}

void require(const Result<void>& done) {
  if (!done) give_up(done.error());
}
template <class T>
T require(Result<T> result) {
  if (!result) give_up(result.error());
  return *std::move(result);
}

/// This rank's; null, and why, where its host has fewer, or it cannot be opened.
std::shared_ptr<Device> own_device(int rank, std::string& why) {
  MPI_Comm host = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host);
  int local = 0;
  MPI_Comm_rank(host, &local);
  MPI_Comm_free(&host);
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
    if (require(carried_.exchange(ranks_, collective(sent_.data(), by_host_.data()), false)))
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

bool emulated(const Device& device) {
  return device.unit_name().find("656d756c-6174-6564") != std::string::npos;  // "emulated"
}

/// Collective over ranks that have a device each.
bool compare(int rank, Device& device, int batches, int calls, std::string out) {
  const auto board = require(collectives::mpi_board(nullptr));
  const auto watch = require(collectives::Watch::start(*board, Rank{rank}, {}));
  const auto ranks = require(collectives::mpi_communicator(nullptr, {.watch = watch.get()}));
  collectives::NcclId id{};
  if (rank == 0) id = require(collectives::nccl_unique_id(Rank{0}));
  MPI_Bcast(id.data(), static_cast<int>(id.size()), MPI_BYTE, 0, MPI_COMM_WORLD);
  const auto nccl = require(collectives::connect_nccl({.rank = rank,
                                                       .size = ranks->size(),
                                                       .id = id,
                                                       .ordinal = device.ordinal(),
                                                       .device_name = device.name(),
                                                       .stream = device.stream()}));
  if (rank == 0 && emulated(device)) {
    fmt::print(stderr, "counts_bench: no figures: the devices are emulated on this processor\n");
    out.clear();
  }
  Counts one(*ranks, device, *nccl, 1), eight(*ranks, device, *nccl, 8);
  return bench::run_pairs("counts_bench",
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

  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::string why;
  const std::shared_ptr<Device> device = own_device(rank, why);
  // The lowest rank without one says so for all.
  constexpr int kNone = 1 << 30;
  int first = device ? kNone : rank;
  MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  const bool missing = first != kNone;
  bool written = true;
  if (!missing)
    written = compare(rank, *device, batches, calls, out);
  else if (rank == first)
    fmt::print(stderr, "counts_bench: every rank needs a GPU of its own: {}\n", why);
  MPI_Finalize();
  return missing ? exit_code(Code::Environment) : written ? 0 : 1;
}
