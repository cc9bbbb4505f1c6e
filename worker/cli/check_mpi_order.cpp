#include <filesystem>

#include <fmt/format.h>

#include <lockstep/worker/cli/checks.h>

namespace lockstep::worker::cli {

namespace fs = std::filesystem;

namespace {

/// Returns the path of the program that is linked with MPI. A build with MPI places it beside this
/// program.
fs::path order_probe() {
  std::error_code failed;
  return fs::read_symlink("/proc/self/exe", failed).parent_path() / "lockstep_order_probe";
}

}  // namespace

bool built_with_mpi() {
  std::error_code failed;
  return fs::exists(order_probe(), failed);
}

Check check_mpi_order() {
  if (!built_with_mpi())
    return {
        "mpi order", Check::Grade::Warn,
        "not tested: this build has no MPI; ranks meet over TCP, under mpirun too, and reduce in "
        "rank order there"};
  // 5 ranks: not a power of two, so trees are uneven.
  const int code = run_program(
      {"timeout", "-k", "2", "30", "env", "OMPI_ALLOW_RUN_AS_ROOT=1",
       "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "OMPI_MCA_mpi_yield_when_idle=1",
       "OMPI_MCA_rmaps_base_oversubscribe=1", "mpirun", "-n", "5", order_probe().string()});
  if (code == 0)
    return {"mpi order", Check::Grade::Ok, "5 ranks under mpirun reduce in rank order"};
  if (code == 3)
    return {"mpi order", Check::Grade::Fail,
            "MPI reduces out of rank order without saying so; unset the OMPI_MCA_coll_tuned_* "
            "settings"};
  if (code == 124 || code == 137)
    return {"mpi order", Check::Grade::Fail,
            "5 ranks under mpirun did not end within 30 s; unset OMPI_MCA_* settings, if there are "
            "any"};
  return {
      "mpi order", Check::Grade::Fail,
      fmt::format("5 ranks cannot be run under mpirun (exit code {}); is openmpi-bin installed?",
                  code)};
}

}  // namespace lockstep::worker::cli
