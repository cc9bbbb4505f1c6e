// Batches of ranks that MPI has joined, by its barrier and its clock.
#include "interleaved.h"
#include <mpi.h>

namespace lockstep::bench {

bool run_pairs(const std::string& program, const std::vector<Pair>& pairs, int batches,
               const std::string& out) {
  Together ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &ranks.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks.size);
  ranks.barrier = [] { MPI_Barrier(MPI_COMM_WORLD); };
  ranks.seconds = [] { return MPI_Wtime(); };
  ranks.slowest = [](double mine) {
    double slowest = 0;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
  };
  return run_pairs(ranks, program, pairs, batches, out);
}

}  // namespace lockstep::bench
