// Audit of a job with its own compiler, in which every rank decides alone: before each call the
// ranks compare the programs that they are about to run. The audit changes nothing. It reports
// different programs once, and stops the job, on all ranks, only before collectives that would not
// match.
//
//   mpirun -n 4 audit            ends with code 0 if the audit found what it should find
#include <cstdio>
#include <string>

#include <mpi.h>

#include <lockstep/collectives/mpi.h>
#include <lockstep/worker/agreement.h>

using namespace lockstep;
using namespace lockstep::worker;

/// Behaves like the compilers of many frameworks: a size is static at first, and dynamic once a
/// second value is seen. Long batches take a path with one more collective: a branch on a local
/// size.
class OwnCompiler {
 public:
  AuditedCall compile(std::int64_t rows) {
    const bool first = seen_ == 0;
    if (first) seen_ = rows;
    const bool recompiles = rows != seen_ && !dynamic_;
    dynamic_ = dynamic_ || recompiles;
    AuditedCall own;
    own.observation = ObservationBuilder().tensor("tokens", {rows, 16}).build();
    own.program_text = dynamic_ ? "rows: any" : "rows: " + std::to_string(seen_);
    own.collectives_text = rows > 100 ? "all_reduce loss\nall_gather rows" : "all_reduce loss";
    own.program = shapes::fingerprint(own.program_text + own.collectives_text);
    own.collectives = shapes::fingerprint(own.collectives_text);
    own.is_new = first || recompiles;
    return own;
  }

 private:
  std::int64_t seen_ = 0;
  bool dynamic_ = false;
};

/// Makes five calls of a step. On the last rank batches are longer from the second on, and the
/// fifth is much longer. Returns true if the audit found what it should find.
bool train(collectives::Communicator& group) {
  Agreement agreement(group, "world", {});
  OwnCompiler compiler;
  const bool alone = group.size() == 1;
  const bool last = !alone && group.rank().value == group.size() - 1;
  bool good = true;
  for (int call = 0; call < 5; ++call) {
    const std::int64_t rows = last && call > 0 ? (call == 4 ? 120 : 8 + call) : 8;
    const auto audit = agreement.audit("step", compiler.compile(rows));
    const bool stops = !alone && call == 4;
    good = good && audit.has_value() == !stops;
    if (!audit) {  // the job ends here, before it could hang
      if (group.rank().value == 0) std::printf("stopped: %s\n", audit.error().text().c_str());
      good = good && audit.error().code == Code::GraphDivergence;
      continue;
    }
    good = good && audit->finding.has_value() == (!alone && call > 0);
    if (audit->finding && audit->times == 1 && group.rank().value == 0)
      std::printf("found: %s\n", audit->finding->text().c_str());
    // … here the job runs its own program, as it would without an audit …
  }
  if (group.rank().value == 0) std::printf("%s", agreement.findings().summary().c_str());
  return good;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  bool good = false;
  {
    const auto board = collectives::mpi_board(nullptr).value();
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const auto watch = collectives::Watch::start(*board, Rank{rank}, {}).value();
    const auto group = collectives::mpi_communicator(nullptr, {.watch = watch.get()}).value();
    good = train(*group);
  }
  MPI_Finalize();
  return good ? 0 : 1;
}
