// What a miss costs beyond its votes: the exchange of S sources of 4 dims, from a rank's own
// observation to the dims that are dynamic for the group. The floor is one MPI_Allreduce of as many
// 64-bit words as the joined vector has, with an operation that does the work of its three columns.
//
// "mixed" is the same where ranks see different sources whose names have exchanged_states before:
// the roster, then the vector. Prints a table and writes Google-Benchmark JSON;
// scripts/bench_upstream sets it against upstream's way.
//
// usage: scripts/mpirun -n RANKS exchange_bench [--batches N] [--sources N,N] [--out FILE]
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "interleaved.h"
#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <mpi.h>

#include <lockstep/collectives/mpi.h>
#include <lockstep/collectives/tree.h>
#include <lockstep/worker/agree/exchange/decision.h>
#include <lockstep/worker/agree/exchange/exchange.h>

namespace {

using namespace lockstep;
using namespace lockstep::worker;
using bench::Pair;
using collectives::Communicator;

/// Two sizes of each differ between ranks. The names are those of upstream_exchange.py. With
/// `rank_source` each rank has a source of its own as well.
Observation inputs(int rank, int sources, bool rank_source) {
  ObservationBuilder out;
  for (int s = 0; s < sources; ++s)
    out.tensor(
        fmt::format("model.layers[{:04}].attention.cache.key_value.positions_and_lengths", s),
        {5 + rank % 4, 16, 9 - rank % 4, 64});
  if (rank_source) out.tensor(fmt::format("model.only_on[{}]", rank), {4, 4, 4, 4});
  return out.build();
}

/// least | greatest | first, over ranks in order.
void join_words(void* lower, void* into, int* count, MPI_Datatype*) {
  const auto* a = static_cast<const std::int64_t*>(lower);
  auto* b = static_cast<std::int64_t*>(into);
  const int third = *count / 3;
  for (int i = 0; i < third; ++i) b[i] = std::min(a[i], b[i]);
  for (int i = third; i < 2 * third; ++i) b[i] = std::max(a[i], b[i]);
  for (int i = 2 * third; i < *count; ++i) b[i] = a[i];
}

std::function<void()> allreduce(int sources, MPI_Op op) {
  const auto words = static_cast<std::size_t>(sources) * 4 * 3;
  const auto mine = std::make_shared<std::vector<std::int64_t>>(words, 7);
  const auto all = std::make_shared<std::vector<std::int64_t>>(words);
  return [mine, all, op] {
    MPI_Allreduce(mine->data(), all->data(), static_cast<int>(mine->size()), MPI_INT64_T, op,
                  MPI_COMM_WORLD);
  };
}

Bytes joined(Communicator& group, Bytes mine, const collectives::Join& join) {
  collectives::TreeRound round(group.rank(), group.size(), std::move(mine), join);
  if (!group.run(round) || round.result().empty()) std::abort();
  return round.result();
}

/// What the exchange is for. Two dims of each shared source, where there are several ranks.
void check(const std::optional<JointObservation>& joint, const Communicator& group, int sources) {
  const auto dynamic = static_cast<std::size_t>(group.size() > 1 ? 2 * sources : 0);
  if (!joint || joint_symbols(*joint).size() != dynamic) std::abort();
}

Pair same_pair(Communicator& group, MPI_Op op, int sources, int calls) {
  const auto mine = std::make_shared<Observation>(inputs(group.rank().value, sources, false));
  return {fmt::format("exchange/{}", sources), calls, allreduce(sources, op),
          [mine, sources, &group] {
            const Bytes all = joined(group, list_payload(*mine), join_columns);
            check(read_list_payload(all, mine->list, nullptr), group, sources);
          }};
}

Pair mixed_pair(Communicator& group, MPI_Op op, int sources, int calls) {
  const auto mine = std::make_shared<Observation>(inputs(group.rank().value, sources, true));
  const auto all =
      decode_roster(joined(group, encode(roster_of(*mine, {}, true, Dictionary())), join_rosters));
  const auto dictionary = std::make_shared<const Dictionary>(all->names);
  return {fmt::format("exchange_mixed/{}", sources), calls, allreduce(sources, op),
          [mine, dictionary, sources, &group] {
            (void)joined(group, encode(roster_of(*mine, {}, true, *dictionary)), join_rosters);
            const Bytes bytes =
                joined(group, mixed_payload(*mine, *dictionary, nullptr), join_columns);
            check(read_mixed_payload(bytes, dictionary, nullptr), group, sources);
          }};
}

}  // namespace

int main(int argc, char** argv) {
  int batches = 41;
  std::vector<int> sources{10, 100, 1000};
  std::string out;
  CLI::App app("The exchange of a miss against one MPI_Allreduce");
  app.add_option("--batches", batches, "Pairs of batches")->check(CLI::Range(3, 10000));
  app.add_option("--sources", sources, "Numbers of sources")->delimiter(',');
  app.add_option("--out", out, "JSON file");
  CLI11_PARSE(app, argc, argv);

  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Op op = MPI_OP_NULL;
  MPI_Op_create(join_words, 0, &op);
  bool written = false;
  {
    const auto board = collectives::mpi_board(nullptr).value();
    const auto watch = collectives::Watch::start(*board, Rank{rank}, {}).value();
    const auto group = collectives::mpi_communicator(nullptr, {.watch = watch.get()}).value();
    std::vector<Pair> pairs;
    for (const int count : sources) {
      const int calls = std::clamp(20000 / count / (group->size() > 2 ? 10 : 1), 3, 500);
      pairs.push_back(same_pair(*group, op, count, calls));
      pairs.push_back(mixed_pair(*group, op, count, calls));
    }
    written = bench::run_pairs("exchange_bench", pairs, batches, out);
  }
  MPI_Op_free(&op);
  MPI_Finalize();
  return written ? 0 : 1;
}
