// One rank of a job that goes wrong on request, on the rank that is named: for fault_test.cpp.
// usage: fault_rank FAULT RANK
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <unistd.h>

#include <lockstep/collectives/mpi.h>
#include <lockstep/collectives/vote.h>

namespace {

using namespace lockstep;
using namespace lockstep::collectives;
using namespace std::chrono_literals;

/// Long where the job is to end before that, so that a rank of a busy machine is not blamed.
Duration deadline_for(const std::string& fault) {
  if (fault == "stop" || fault == "sleep") return 4s;
  if (fault == "late" || fault == "compile" || fault == "none") return 5s;
  return 30s;
}

struct Job {
  explicit Job(Duration time) : deadline(time) {}
  Duration deadline;
  MpiSession session = MpiSession::open().value();
  std::unique_ptr<Board> board = mpi_board(nullptr).value();
  Rank self = mpi_communicator(nullptr, {}).value()->rank();
  std::unique_ptr<Watch> watch =
      Watch::start(*board, self,
                   {.deadline = deadline, .report_file = "", .signals = true, .on_verdict = {}})
          .value();
  std::unique_ptr<Communicator> all = mpi_communicator(nullptr, {.watch = watch.get()}).value();
};

void must(const Result<void>& result) {
  if (result) return;
  std::fprintf(stderr, "fault_rank: %s\n", result.error().text().c_str());
  ::_exit(exit_code(result.error().code));
}

void all_reduce(Job& job) {
  const float one = 1;
  float sum = 0;
  must(job.all->run(Collective{
      .send = &one, .receive = &sum, .rows = 1, .label = "all_reduce loss train.cpp:7"}));
  if (sum != static_cast<float>(job.all->size())) std::abort();
}

void misbehave(Job& job, const std::string& fault) {
  if (fault == "kill") std::raise(SIGKILL);
  if (fault == "stop") std::raise(SIGSTOP);
  if (fault == "exit") std::exit(0);
  if (fault == "abort") std::abort();
  if (fault == "sleep") std::this_thread::sleep_for(1h);
  if (fault == "late") std::this_thread::sleep_for(300ms);
  if (fault == "elsewhere") all_reduce(job);
  if (fault == "mpi")
    must(job.all->start(Collective{.kind = Collective::Kind::AllToAll,
                                   .send = &job,
                                   .receive = &job,
                                   .send_rows = {},
                                   .receive_rows = {}}));
  if (fault != "compile") return;
  job.watch->seat().phase(Phase::Compiling);
  for (int i = 0; i < 70; ++i) {
    job.watch->seat().renew(SystemClock().now() + 1s);
    std::this_thread::sleep_for(100ms);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string fault = argv[1];
  Job job(deadline_for(fault));
  const bool me = job.self.value == std::atoi(argv[2]);
  for (int call = 0; call < 10; ++call) {
    job.watch->seat().note(fmt::format("call {} of train_step", call), SystemClock().now());
    if (me && call == 5) misbehave(job, fault);
    if (me && call == 5 && fault == "leave") return 0;
    VoteRound round(job.self, job.all->size(), Vote::of(1, static_cast<std::uint64_t>(call), 2, 3));
    must(job.all->run(round));
    if (!round.result().same_key()) return 3;
    all_reduce(job);
  }
  std::printf("rank %d done\n", job.self.value);
  return 0;
}
