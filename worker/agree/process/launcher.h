// What mpirun, mpiexec, srun or torchrun tell a process that they start, by environment variables.
// These do not depend on the MPI that the program is built with.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace lockstep::worker {

struct Launcher {
  enum class Kind { OpenMpi, Pmi, Slurm, Torchrun };  // whose variables were found
  Kind kind = Kind::OpenMpi;
  int rank = 0, size = 1;
  std::optional<bool> one_host;  // all ranks are on one host; nullopt: not known
  /// True: the variables by which an MPI joins the ranks are set. Without these variables an MPI
  /// takes the process for a job of one rank, which is intended, for example, for a child of a
  /// rank.
  bool offers_mpi = false;
  /// Identifies the launch: equal on all ranks of one host, and different for other launches on it.
  std::string id;
};

/// The value of a variable; empty if it is not set.
using Variables = std::function<std::string(const char* name)>;

/// nullopt: no variables say that this process was started together with others. Slurm counts only
/// in a task of a step of srun: its variables are also set in a batch script, which is one process.
[[nodiscard]] std::optional<Launcher> launcher_of(const Variables& variable);

/// "mpirun -x NAME=VALUE …": the option of a launcher that gives the ranks a variable.
[[nodiscard]] std::string with_variable(Launcher::Kind kind, const std::string& name,
                                        const std::string& value);

}  // namespace lockstep::worker
