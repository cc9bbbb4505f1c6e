// The agreement alone, for a framework that has a compiler of its own: one call before each compile
// step. No tracer and no code generation are linked; the process has called MPI_Init itself.
#include <cstdio>

#include <mpi.h>

#include <lockstep/collectives/mpi.h>
#include <lockstep/worker/agreement.h>

using namespace lockstep::worker;

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int exit_code = 0;
  {}
  MPI_Finalize();
  return exit_code;
}
