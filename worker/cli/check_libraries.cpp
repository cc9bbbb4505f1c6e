#include <array>
#include <string_view>

#include <fmt/format.h>

#include <lockstep/collectives/base/shared_library.h>
#include <lockstep/worker/cli/checks.h>

namespace lockstep::worker::cli {
namespace {

Check check_mpi() {
  if (!built_with_mpi())
    return {
        "mpi", Check::Grade::Warn,
        "not in this build: ranks meet over TCP, also where mpirun starts them; run-ranks starts "
        "them without it"};
  SharedLibrary mpi({"libmpi.so.40", "libmpi.so.12", "libmpi.so"});
  // May be called before MPI_Init; 8192 is at least MPI_MAX_LIBRARY_VERSION_STRING of every known
  // MPI.
  int (*version)(char*, int*) = nullptr;
  if (mpi.loaded()) mpi.find(version, "MPI_Get_library_version");
  if (version == nullptr)
    return {"mpi", Check::Grade::Warn,
            fmt::format("not found ({}); jobs of more than one process need it: run scripts/setup",
                        mpi.why())};
  std::array<char, 8192> text{};
  int length = 0;
  version(text.data(), &length);
  std::string_view line(text.data());
  line = line.substr(0, line.find_first_of(",\n"));
  return {"mpi", Check::Grade::Ok, std::string(line)};
}

}  // namespace

std::vector<Check> check_libraries() {
  std::vector<Check> checks{check_mpi()};
  const CudaPlaces places = CudaPlaces::here();
  for (Check& check : check_cuda(places)) checks.push_back(std::move(check));
  checks.push_back(check_nccl(places));
  return checks;
}

}  // namespace lockstep::worker::cli
