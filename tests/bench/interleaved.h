// Two sides of a comparison, run in one process on all ranks in alternating batches, so that
// whatever else the machine does hits both. Over MPI, for benchmarks whose floor it is
// (interleaved_mpi.cpp), or over whatever joins the ranks.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace lockstep::bench {

struct Pair {
  std::string name;
  int calls = 1;  // per batch
  std::function<void()> floor, ours;
  double target = 0;  // the largest ratio that is good enough; 0: none is set
  /// Before each batch of theirs, not timed; may be empty.
  std::function<void()> prepare_floor{}, prepare_ours{};
};

/// What the ranks do together around their batches, and the clock that times these.
struct Together {
  int rank = 0, size = 1;
  std::function<void()> barrier;
  std::function<double(double mine)> slowest;  // the largest of all ranks
  std::function<double()> seconds;
};

/// Collective. Runs each pair's `batches` batches and prints a line per pair on rank 0; writes
/// Google-Benchmark JSON with ratios, their 95 % intervals and the machine to `out` there, unless
/// empty. A time is the slowest rank's; a ratio is the median over
/// batches of both.
/// Returns false where the file could not be written.
[[nodiscard]] bool run_pairs(const Together& ranks, const std::string& program,
                             const std::vector<Pair>& pairs, int batches, const std::string& out);
/// The same over MPI_COMM_WORLD, between MPI_Init and MPI_Finalize.
[[nodiscard]] bool run_pairs(const std::string& program, const std::vector<Pair>& pairs,
                             int batches, const std::string& out);

/// Model of the processor, cores and load of this machine, for a result's "context".
[[nodiscard]] nlohmann::json machine();

}  // namespace lockstep::bench
