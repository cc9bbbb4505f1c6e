// lockstep dryrun --calibrate: if mpirun has started this process, it becomes the program that is
// linked with MPI (network_probe.cpp).
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

#include <lockstep/worker/cli/calibrate.h>
#include <lockstep/worker/cli/subcommand.h>
#include <lockstep/worker/simulator/cost/network_file.h>

namespace lockstep::worker::cli {
namespace {

/// True if mpirun or srun has started this process, by the variables that they set.
bool launched() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "SLURM_PROCID"})
    if (std::getenv(name) != nullptr) return true;
  return false;
}

}  // namespace

int calibrate(const std::string& name, const std::string& folder) {
  for (const std::string_view known : simulator::network_names())
    if (name == known)
      return complain(
          fmt::format("--name {}: this is a built-in network; take another name.", name), kUsage);
  if (!simulator::network_name_fits(name))
    return complain("--name: 1 to 64 letters, digits, dots, dashes and underscores, no dot first.",
                    kUsage);
  if (folder.empty())
    return complain("there is no cache directory to store it in; set LOCKSTEP_CACHE_DIR.",
                    kEnvironment);
  std::error_code failed;
  const std::filesystem::path probe =
      std::filesystem::read_symlink("/proc/self/exe", failed).parent_path() /
      "lockstep_network_probe";
  if (failed || !std::filesystem::exists(probe))
    return complain(
        fmt::format("calibration needs {}, which a build with MPI leaves beside this program.",
                    probe.string()),
        kEnvironment);
  if (!launched())
    return complain(
        "calibration measures messages between ranks; start it as mpirun -n 4 lockstep dryrun "
        "--calibrate (as root, mpirun wants --allow-run-as-root).",
        kUsage);
  ::execl(probe.c_str(), probe.c_str(), name.c_str(), folder.c_str(), nullptr);
  return complain(fmt::format("{} cannot be started: {}.", probe.string(), std::strerror(errno)),
                  kEnvironment);
}

}  // namespace lockstep::worker::cli
