// The checks of `lockstep doctor`. Each leaves the machine unchanged.
#pragma once

#include <string>
#include <vector>

#include <lockstep/collectives/base/cuda_places.h>

namespace lockstep::worker::cli {

struct Check {
  enum class Grade { Ok, Warn, Fail };  // Fail: jobs cannot run here
  std::string name;
  Grade grade = Grade::Ok;
  std::string detail;  // what was found; if something is wrong, what to do
};

/// Runs all checks. Returns them in the order in which they are printed.
[[nodiscard]] std::vector<Check> check_machine();

/// Checks that the compiler of jobs, LOCKSTEP_CXX or c++, builds a shared object that this process
/// can load and call. Without a compiler, jobs interpret kernels.
[[nodiscard]] Check check_compiler();
/// Checks the optional libraries: loads each and reads its version.
[[nodiscard]] std::vector<Check> check_libraries();
/// True if ranks that mpirun starts meet by MPI in this build; else they meet over TCP.
[[nodiscard]] bool built_with_mpi();
/// Checks "cuda" (the driver and its devices), "nvrtc" and "cublas". All are optional; only the
/// driver is initialised.
[[nodiscard]] std::vector<Check> check_cuda(const CudaPlaces& places);
[[nodiscard]] Check check_nccl(const CudaPlaces& places);
/// Runs ranks under mpirun to check that lockstep's ordered tree, and MPI's own reductions, keep
/// rank order with an operation that does not commute. Takes about a second.
[[nodiscard]] Check check_mpi_order();
/// Checks the cache directory, open files and shared memory.
[[nodiscard]] std::vector<Check> check_limits();

/// Runs a program found on PATH and discards its output. Returns its exit code, 128 if a signal
/// ended it, -1 if it could not be started.
[[nodiscard]] int run_program(const std::vector<std::string>& words);

}  // namespace lockstep::worker::cli
