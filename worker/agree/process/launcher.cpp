#include <fstream>
#include <iterator>
#include <sstream>

#include <fmt/format.h>
#include <unistd.h>

#include <lockstep/collectives/base/number_text.h>
#include <lockstep/worker/agree/process/launcher.h>

namespace lockstep::worker {
namespace {

std::string contents(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A process, from /proc.
struct Process {
  int parent = 0;
  std::string started;  // in ticks since the machine started
};

Process process(int pid) {
  const std::string text = contents(fmt::format("/proc/{}/stat", pid));
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream fields(text.substr(name_end + 1));
  Process out;
  std::string state;
  fields >> state >> out.parent;
  for (int skipped = 0; skipped < 18; ++skipped) fields >> out.started;
  return out;
}

/// The process that started this host's ranks: the nearest ancestor without `marker` in its
/// environment. Shells and tools between it and the rank have `marker`, as the rank has.
std::string starter(const std::string& marker) {
  int pid = ::getppid();
  for (int depth = 0; depth < 64 && pid > 1; ++depth) {
    const std::string environment = '\0' + contents(fmt::format("/proc/{}/environ", pid));
    if (environment.find('\0' + marker + "=") == std::string::npos) break;
    const int parent = process(pid).parent;
    if (parent == 0) break;
    pid = parent;
  }
  return fmt::format("process {} started {}", pid, process(pid).started);
}

/// True if the variable `name`, a number of ranks or hosts, is `wanted`; nullopt: it is not set.
std::optional<bool> says(const Variables& variable, const char* name, int wanted) {
  const auto told = number_in<int>(variable(name));
  return told ? std::optional(*told == wanted) : std::nullopt;
}

std::optional<Launcher> numbered(Launcher::Kind kind, const std::string& rank,
                                 const std::string& size) {
  const auto r = number_in<int>(rank), n = number_in<int>(size);
  if (!r || !n || *r < 0 || *r >= *n) return std::nullopt;
  Launcher out;
  out.kind = kind, out.rank = *r, out.size = *n;
  return out;
}

std::optional<Launcher> of_open_mpi(const Variables& variable) {
  auto out = numbered(Launcher::Kind::OpenMpi, variable("OMPI_COMM_WORLD_RANK"),
                      variable("OMPI_COMM_WORLD_SIZE"));
  if (!out) return out;
  out->one_host = says(variable, "OMPI_COMM_WORLD_LOCAL_SIZE", out->size);
  out->offers_mpi = !variable("PMIX_RANK").empty();
  // Job numbers are reused; the address of a server is not reused while the server runs.
  for (const char* name : {"PMIX_NAMESPACE", "PMIX_SERVER_URI2", "PMIX_SERVER_URI3"})
    out->id += variable(name) + " ";
  if (variable("PMIX_NAMESPACE").empty()) out->id = starter("OMPI_COMM_WORLD_RANK");
  return out;
}

/// For MPICH, Intel MPI, srun --mpi=pmi2 and others.
std::optional<Launcher> of_pmi(const Variables& variable) {
  auto out = numbered(Launcher::Kind::Pmi, variable("PMI_RANK"), variable("PMI_SIZE"));
  if (!out) return out;
  out->one_host = says(variable, "MPI_LOCALNRANKS", out->size);
  if (!out->one_host) out->one_host = says(variable, "SLURM_STEP_NUM_NODES", 1);
  out->offers_mpi = !variable("PMI_FD").empty() || !variable("PMI_PORT").empty();
  out->id = starter("PMI_RANK");
  return out;
}

std::optional<Launcher> of_slurm(const Variables& variable) {
  // A batch script or an interactive shell has a step number beyond an int.
  const auto step = number_in<int>(variable("SLURM_STEP_ID"));
  if (!step) return std::nullopt;
  auto out =
      numbered(Launcher::Kind::Slurm, variable("SLURM_PROCID"), variable("SLURM_STEP_NUM_TASKS"));
  if (!out) return out;
  out->one_host = says(variable, "SLURM_STEP_NUM_NODES", 1);
  out->offers_mpi = true;
  out->id = fmt::format("step {}.{} start {}", variable("SLURM_JOB_ID"), *step,
                        variable("SLURM_RESTART_COUNT"));
  return out;
}

/// For torchrun, also with --no-python. Its store uses MASTER_PORT, so ranks cannot meet there.
std::optional<Launcher> of_torchrun(const Variables& variable) {
  if (variable("TORCHELASTIC_RUN_ID").empty()) return std::nullopt;
  auto out = numbered(Launcher::Kind::Torchrun, variable("RANK"), variable("WORLD_SIZE"));
  if (!out) return out;
  out->one_host = says(variable, "LOCAL_WORLD_SIZE", out->size);
  for (const char* name :
       {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT"})
    out->id += variable(name) + " ";
  out->id += starter("TORCHELASTIC_RUN_ID");
  return out;
}

}  // namespace

std::optional<Launcher> launcher_of(const Variables& variable) {
  // Daemons of other launchers that srun has started pass srun's variables on, so Slurm is last.
  if (auto told = of_open_mpi(variable)) return told;
  if (auto told = of_pmi(variable)) return told;
  // torchrun within a step of srun starts ranks of its own, so it is tested before Slurm.
  if (auto told = of_torchrun(variable)) return told;
  return of_slurm(variable);
}

std::string with_variable(Launcher::Kind kind, const std::string& name, const std::string& value) {
  switch (kind) {
    case Launcher::Kind::OpenMpi:
      return fmt::format("mpirun -x {}={}", name, value);
    case Launcher::Kind::Pmi:
      return fmt::format("mpiexec -genv {} {}", name, value);
    case Launcher::Kind::Torchrun:
      return fmt::format("{}={} torchrun", name, value);
    case Launcher::Kind::Slurm:
      break;
  }
  return fmt::format("srun --export=ALL,{}={}", name, value);
}

}  // namespace lockstep::worker
