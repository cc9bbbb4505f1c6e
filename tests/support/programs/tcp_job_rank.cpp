// A training program in which one rank fails: for tcp_job_test.cpp.
// usage: tcp_job_rank FAULT MOMENT RANK [MILLISECONDS]   (the duration of each call; default none)
// FAULT: none, kill, stop (until the others have ended), suspend (for good), pause, exit, hang
// (until the others have ended). MOMENT: call (between two calls), wait (in call 5, to which the
// others are late, so the rank waits for a message; this program replaces sched_yield() and
// epoll_wait()).
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <lockstep/worker/job.h>

using namespace lockstep::worker;
using lockstep::Result;
using namespace std::chrono_literals;

namespace {

std::string fault;
std::atomic<bool> armed{false};

/// Kills this process once all other ranks have ended.
void kill_when_alone() {
  const std::string self = std::to_string(::getpid());
  if (::fork() != 0) return;
  // Processes of the job, less those of this rank.
  constexpr const char* kScript =
      "while sleep 0.2; of=$(grep -lzxs \"LOCKSTEP_RENDEZVOUS=$LOCKSTEP_RENDEZVOUS\" "
      "/proc/[0-9]*/environ); [ -n \"$(grep -Lzxs \"LOCKSTEP_RANK=$LOCKSTEP_RANK\" $of)\" ]; "
      "do :; done; kill -KILL $0";
  ::execl("/bin/sh", "sh", "-c", kScript, self.c_str(), nullptr);
  ::_exit(1);
}

void pause_for(std::chrono::milliseconds time) {
  const pid_t self = ::getpid();
  if (::fork() == 0) {
    ::usleep(static_cast<useconds_t>(time.count() * 1000));
    ::kill(self, SIGCONT);
    ::_exit(0);
  }
  std::raise(SIGSTOP);
}

void misbehave() {
  if (!armed.exchange(false)) return;
  if (fault == "kill") std::raise(SIGKILL);
  if (fault == "stop" || fault == "hang") kill_when_alone();
  if (fault == "stop") std::raise(SIGSTOP);
  if (fault == "suspend") std::raise(SIGSTOP);
  if (fault == "pause") pause_for(500ms);
  if (fault == "exit") std::exit(0);
  while (fault == "hang") ::pause();
}

}  // namespace

// Replacements of system functions.
extern "C" int sched_yield() noexcept {
  misbehave();
  return static_cast<int>(::syscall(SYS_sched_yield));
}

extern "C" int epoll_wait(int file, epoll_event* events, int most, int timeout) {
  misbehave();
  return static_cast<int>(
      ::syscall(SYS_epoll_pwait, file, events, most, timeout, nullptr, sizeof(long)));
}

namespace {

struct Input {
  Tensor x, even;  // x differs in size between ranks; even does not
  template <class V>
  void fields(V& v) {
    v("x", x), v("even", even);
  }
};

struct Output {
  Tensor total, shares, rows, even;
  template <class V>
  void fields(V& v) {
    v("total", total), v("shares", shares), v("rows", rows), v("even", even);
  }
};

double sum_of(const Tensor& tensor) {
  double sum = 0;
  for (std::int64_t i = 0; i < tensor.array().elements(); ++i) sum += tensor.array().at(i);
  return sum;
}

Array filled(std::int64_t size, double value) {
  Array out(lockstep::DType::F64, {size});
  for (std::int64_t i = 0; i < size; ++i) out.set(i, value);
  return out;
}

Result<void> train(Job& job, bool faulty, bool waiting, std::chrono::milliseconds pause) {
  auto step = job.frame<Input, Output>("step", [](Input in) {
    const Tensor mine = sum(in.x * in.x);
    return Output{all_reduce(mine), all_gather(reshape(mine, {1})), all_gather(in.x, 0),
                  all_reduce(in.even)};
  });
  for (int call = 0; call < 8; ++call) {
    std::this_thread::sleep_for(pause);
    if (call == 5 && faulty) armed = true;
    if (call == 5 && !waiting) misbehave();
    if (call == 5 && waiting && !faulty) std::this_thread::sleep_for(20ms);
    const auto out =
        step(Input{filled(2 + (job.rank() + call) % 3, 0.5 + call), filled(call % 4, 1)});
    if (!out) return out.error();
    std::printf("rank %d call %d: total %.17g shares %.17g rows %.17g even %.17g\n", job.rank(),
                call, sum_of(out->total), sum_of(out->shares), sum_of(out->rows),
                sum_of(out->even));
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4 || argc > 5) return 2;
  const std::chrono::milliseconds pause(argc == 5 ? std::atoi(argv[4]) : 0);
  fault = argv[1];
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  auto job = Job::init(&argc, &argv);
  if (!job) return Job::report(job.error());
  const bool faulty = fault != "none" && (*job)->rank() == std::atoi(argv[3]);
  return (*job)->run([&] { return train(**job, faulty, std::string(argv[2]) == "wait", pause); });
}
