// What it costs that all ranks share a few words (lockstep.h), against the MPI_Allreduce that would
// do without names, deadlines and errors; and what is left of that cost if the words were cast ahead
// of other work. Prints a table and writes Google-Benchmark JSON.
//
// usage: scripts/mpirun -n RANKS words_bench [--batches N] [--calls N] [--out FILE]
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "interleaved.h"
#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <lockstep.h>
#include <mpi.h>

namespace {

using namespace lockstep;
using bench::Pair;

void allreduce(int count) {
  std::array<std::int64_t, 8> mine{1, 2, 3, 4, 5, 6, 7, 8}, all{};
  MPI_Allreduce(mine.data(), all.data(), count, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
  if (all[0] != 1) std::abort();
}

constexpr std::array<std::int32_t, 8> kMax{LOCKSTEP_OP_MAX, LOCKSTEP_OP_MAX, LOCKSTEP_OP_MAX,
                                           LOCKSTEP_OP_MAX, LOCKSTEP_OP_MAX, LOCKSTEP_OP_MAX,
                                           LOCKSTEP_OP_MAX, LOCKSTEP_OP_MAX};

void agree(lockstep_group* group, std::size_t count) {
  std::array<std::int64_t, 8> words{1, 2, 3, 4, 5, 6, 7, 8};
  if (lockstep_agree_words(group, "batch", words.data(), count, kMax.data(), 0, "serve.c:41",
                           nullptr) != 0 ||
      words[0] != 1)
    std::abort();
}

Pair words_pair(lockstep_group* group, int count, int calls) {
  return {fmt::format("words/max_of_{}", count), calls, [count] { allreduce(count); },
          [group, count] { agree(group, static_cast<std::size_t>(count)); }, 0};
}

/// Words that were cast ahead and have arrived. Only lockstep_agree_words() is timed, of which there
/// is one per batch.
Pair ahead_pair(lockstep_group* group, int count) {
  const auto arrive = [group, count] {
    const std::array<std::int64_t, 8> words{1, 2, 3, 4, 5, 6, 7, 8};
    if (lockstep_agree_words_ahead(group, "batch", words.data(), static_cast<std::size_t>(count),
                                   kMax.data(), "serve.c:41") != 0)
      std::abort();
    for (int i = 0; i < 200; ++i) lockstep_poke(group);
  };
  return {fmt::format("words/ahead_max_of_{}", count), 1, [count] { allreduce(count); },
          [group, count] { agree(group, static_cast<std::size_t>(count)); }, 0, {}, arrive};
}

}  // namespace

int main(int argc, char** argv) {
  int batches = 41, calls = 2000;
  std::string out;
  CLI::App app("Words that all ranks share, against MPI_Allreduce");
  app.add_option("--batches", batches, "Pairs of batches")->check(CLI::Range(3, 10000));
  app.add_option("--calls", calls, "Calls per batch")->check(CLI::Range(1, 10000000));
  app.add_option("--out", out, "JSON file");
  CLI11_PARSE(app, argc, argv);

  MPI_Init(&argc, &argv);
  lockstep_group* group = nullptr;
  const MPI_Comm world = MPI_COMM_WORLD;
  if (lockstep_group_open(static_cast<const void*>(&world), 60, nullptr, &group) != 0) {
    fmt::print(stderr, "words_bench: {}\n", lockstep_report_text(lockstep_last_error()));
    return 1;
  }
  const int slow = std::max(1, calls / (lockstep_group_size(group) > 2 ? 20 : 1));
  const std::vector<Pair> pairs{words_pair(group, 1, slow), words_pair(group, 5, slow),
                                words_pair(group, 8, slow), ahead_pair(group, 1),
                                ahead_pair(group, 8)};
  const bool written = bench::run_pairs("words_bench", pairs, batches, out);
  const bool finished = lockstep_finish(group) == 0;
  lockstep_group_close(group);
  MPI_Finalize();
  return written && finished ? 0 : 1;
}
