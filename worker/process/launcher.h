// What mpirun, mpiexec, srun or torchrun tell a process that they have started: by the variables
// that they set, which are the same whichever MPI a program is built with.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace lockstep::worker {

struct Launcher {
  enum class Kind { OpenMpi, Pmi, Slurm, Torchrun };  // whose variables told
  Kind kind = Kind::OpenMpi;
  int rank = 0, size = 1;
  std::optional<bool> one_host;  // all ranks are on it; nullopt: it does not say
  /// What an MPI would join the others by is there. Without it a process is alone to its MPI, on
  /// purpose: a child of a rank, say.
  bool offers_mpi = false;
  /// The same for all ranks of one host, and for no other launch on it.
  std::string id;
};

/// The value of a variable; empty where it is not set.
using Variables = std::function<std::string(const char* name)>;

/// nullopt: nobody has started this process together with others, as far as the variables say.
/// Within a batch job only what srun has started as a task of a step counts: its variables are set
/// in the script, too, where one process runs.
[[nodiscard]] std::optional<Launcher> launcher_of(const Variables& variable);

/// "mpirun -x NAME=VALUE …": how it is told to give the ranks a variable.
[[nodiscard]] std::string with_variable(Launcher::Kind kind, const std::string& name,
                                        const std::string& value);

}  // namespace lockstep::worker
