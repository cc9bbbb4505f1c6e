// What `lockstep doctor` looks at. Each check leaves the machine as it was.
#pragma once

#include <string>
#include <vector>

#include <lockstep/collectives/base/cuda_places.h>

namespace lockstep::worker::cli {

struct Check {
  enum class Grade { Ok, Warn, Fail };  // Fail: jobs cannot run here
  std::string name;
  Grade grade = Grade::Ok;
  std::string detail;  // what was found; where something is wrong, what to do
};

/// All checks, in the order printed.
[[nodiscard]] std::vector<Check> check_machine();

/// The compiler of jobs, LOCKSTEP_CXX or c++, builds a shared object which this process can load
/// and call. Without c++ jobs interpret kernels.
[[nodiscard]] Check check_compiler();
/// Libraries that are used where present: loaded to ask their version.
[[nodiscard]] std::vector<Check> check_libraries();
/// Whether this build joins the ranks of mpirun by MPI; else they meet over TCP.
[[nodiscard]] bool built_with_mpi();
/// "cuda" (the driver and its devices, which alone is initialised), "nvrtc" and "cublas", of which
/// none need be there.
[[nodiscard]] std::vector<Check> check_cuda(const CudaPlaces& places);
[[nodiscard]] Check check_nccl(const CudaPlaces& places);
/// Real ranks under mpirun: the ordered tree, and MPI's own reductions with an operation that does
/// not commute. Takes about a second.
[[nodiscard]] Check check_mpi_order();
/// Cache directory, open files, shared memory.
[[nodiscard]] std::vector<Check> check_limits();

/// Runs a program found on PATH, its output thrown away; its exit code, 128 where a signal ended
/// it, -1 where it could not be started.
[[nodiscard]] int run_program(const std::vector<std::string>& words);

}  // namespace lockstep::worker::cli
