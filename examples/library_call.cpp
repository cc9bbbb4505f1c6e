// The agreement alone, for a framework with its own compiler: one call before each of its steps.
// The program links no tracer and no code generation, and calls MPI_Init itself.
//
//   mpirun -n 4 library_call                 rank 0 prints the decision of each call
//   mpirun -n 4 library_call --every-rank    all ranks print; their lines for a call are equal
#include <cstdio>
#include <cstring>
#include <map>
#include <string>

#include <mpi.h>

#include <lockstep/collectives/mpi.h>
#include <lockstep/worker/agreement.h>

using namespace lockstep;
using namespace lockstep::worker;

/// Makes five calls; the number of rows differs between ranks and between calls.
Result<void> train(collectives::Communicator& group, bool speaks) {
  Agreement agreement(group, "world", {});
  std::map<int, std::string> programs;  // the framework's compiled programs, by entry
  const auto compile = [&](int entry, const Decision& decision) -> Result<Built> {
    programs[entry] = decision_text(decision);
    return Built{.program = decision.digest(), .guards = {}};
  };
  for (int call = 0; call < 5; ++call) {
    const std::int64_t rows = call < 2 ? 8 : 4 + (3 * group.rank().value + 5 * call) % 7;
    const auto agreed = agreement.agree(
        "step", ObservationBuilder().tensor("tokens", {rows, 16}).boolean("train", true).build(),
        compile);
    if (!agreed) return agreed.error();
    if (speaks)
      std::printf("call %d: %s entry %d, %s\n", call, agreed->is_new ? "compile" : "run",
                  agreed->entry, programs.at(agreed->entry).c_str());
  }
  return {};
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int exit_code = 0;
  {
    const auto board = collectives::mpi_board(nullptr).value();
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const auto watch = collectives::Watch::start(*board, Rank{rank}, {}).value();
    const auto group = collectives::mpi_communicator(nullptr, {.watch = watch.get()}).value();
    const bool every_rank = argc > 1 && std::strcmp(argv[1], "--every-rank") == 0;
    if (const auto done = train(*group, every_rank || rank == 0); !done) {
      if (rank == 0) std::fprintf(stderr, "%s\n", done.error().text().c_str());
      exit_code = lockstep::exit_code(done.error().code);
    }
  }
  MPI_Finalize();
  return exit_code;
}
