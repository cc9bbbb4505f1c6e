// A training program in which one rank fails at a chosen moment: for fault_matrix_test.cpp.
// usage: fault_matrix_rank FAULT MOMENT RANK [FOLDER]
// Frames with data collectives run before and after call 5, in which the rank fails. For moments
// inside a vote and inside a data collective, this program replaces MPI_Isend and MPI_Allgather.
// For a disk that is full or read-only it replaces write() and openat(), for files in FOLDER.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>

#include <fcntl.h>
#include <mpi.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <lockstep/worker/job.h>

using namespace lockstep::worker;
using lockstep::Result;

namespace {

constexpr int kCalls = 8, kFaultyCall = 5;

struct Plan {
  std::string fault, moment, folder;
  int rank = 0;
};
Plan plan;
/// The moment at which this rank fails; empty on other ranks, and before and after the faulty call.
std::string armed;
bool disk_bad = false;

void stop(std::chrono::milliseconds time) {
  const pid_t self = ::getpid();
  if (::fork() == 0) {  // the child wakes the stopped process
    ::usleep(static_cast<useconds_t>(time.count() * 1000));
    ::kill(self, SIGCONT);
    ::_exit(0);
  }
  std::raise(SIGSTOP);
}

void misbehave(const std::string& moment) {
  if (armed != moment) return;
  armed.clear();
  std::printf("rank %d goes wrong\n", plan.rank);
  if (plan.fault == "kill") std::raise(SIGKILL);
  if (plan.fault == "stop") std::raise(SIGSTOP);
  if (plan.fault == "pause") stop(std::chrono::milliseconds(700));
  if (plan.fault == "exit") std::exit(0);
  if (plan.fault == "late") std::this_thread::sleep_for(std::chrono::seconds(7));
  while (plan.fault == "hang") ::pause();
  if (plan.fault == "term") std::raise(SIGTERM), ::pause();
  if (plan.fault == "throw") throw std::runtime_error("the file of batch 5 is gone");
  if (plan.fault == "full" || plan.fault == "read_only") disk_bad = true;
}

/// True for a path or descriptor in the folder that is full or read-only on this rank.
bool in_bad_folder(const char* path) {
  return disk_bad && std::strncmp(path, plan.folder.data(), plan.folder.size()) == 0;
}
bool in_bad_folder(int descriptor) {
  if (!disk_bad) return false;
  char path[512] = {};
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  return ::readlink(link.c_str(), path, sizeof path - 1) > 0 && in_bad_folder(path);
}

}  // namespace

// Replacements of functions of MPI and the system.
extern "C" {

int MPI_Isend(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request* request) {
  const int code = PMPI_Isend(buffer, count, type, to, tag, comm, request);
  misbehave("vote");  // its first message has left; the others wait for more
  return code;
}

// Called for sums of few floats: these are gathered.
int MPI_Allgather(const void* send, int sends, MPI_Datatype sent, void* receive, int receives,
                  MPI_Datatype received, MPI_Comm comm) {
  const bool fails = armed == "collective" && plan.fault == "mpi_error";
  misbehave("collective");
  if (fails) return MPI_ERR_OTHER;
  return PMPI_Allgather(send, sends, sent, receive, receives, received, comm);
}

ssize_t write(int file, const void* bytes, size_t size) {
  if (plan.fault != "full" || !in_bad_folder(file)) return ::syscall(SYS_write, file, bytes, size);
  // Writes part of the last block, as a full disk does.
  const long part = ::syscall(SYS_write, file, bytes, size / 2);
  if (part > 0) return part;
  errno = ENOSPC;
  return -1;
}

int openat(int directory, const char* path, int flags, ...) {
  if (plan.fault == "read_only" && (flags & O_CREAT) != 0 && in_bad_folder(directory)) {
    errno = EROFS;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_openat, directory, path, flags, 0600));
}
}

namespace {

struct Input {
  Tensor x;
  template <class V>
  void fields(V& v) {
    v("x", x);
  }
};

struct Output {
  Tensor total, shares;
  template <class V>
  void fields(V& v) {
    v("total", total), v("shares", shares);
  }
};

Output step_body(Input in) {
  const Tensor mine = sum(in.x * in.x);
  return {all_reduce(mine), all_gather(reshape(mine, {1}))};
}

Array batch(const Job& job, int call) {
  Array x(lockstep::DType::F64, {2 + (job.rank() + call) % 3});
  for (std::int64_t i = 0; i < x.elements(); ++i) x.set(i, 0.5 + call);
  return x;
}

void print(const Job& job, const std::string& what, const Output& out) {
  double shares = 0;
  for (std::int64_t r = 0; r < job.size(); ++r) shares += out.shares.array().at(r);
  std::printf("rank %d %s: total %.17g shares %.17g\n", job.rank(), what.c_str(),
              out.total.array().at(0), shares);
}

Result<void> train(Job& job) {
  auto train_step = job.frame<Input, Output>("train_step", step_body);
  // Traced and compiled in the faulty call only.
  auto late_step = job.frame<Input, Output>("late_step", [](Input in) {
    misbehave("trace");
    return step_body(Input{in.x + 1.0});
  });
  const bool faulty = job.rank() == plan.rank;
  for (int call = 0; call < kCalls; ++call) {
    const Input in{batch(job, call)};
    if (call == kFaultyCall) {
      if (faulty) armed = plan.moment;
      misbehave("call");
      if (faulty && plan.fault == "finish") return {};
      auto late = late_step(in);
      if (!late && late.error().code == lockstep::Code::TraceError) {
        // An exception in one rank's trace is an error of all ranks, and the job continues.
        std::printf("rank %d: %s\n", job.rank(), late.error().text().c_str());
        late = late_step(in);
      }
      if (!late) return late.error();
      print(job, "late", *late);
    }
    const auto out = train_step(in);
    if (!out) return out.error();
    print(job, "call " + std::to_string(call), *out);
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4 || argc > 5) return 2;
  plan = {argv[1], argv[2], argc == 5 ? argv[4] : "", std::atoi(argv[3])};
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  const bool faulty = rank != nullptr && std::atoi(rank) == plan.rank;
  if (const char* name = std::getenv("PMIX_NAMESPACE"); name != nullptr)
    std::printf("job %x of MPI\n", static_cast<unsigned>(std::strtoul(name, nullptr, 10)));
  if (faulty && plan.moment == "start") armed = plan.moment;
  misbehave("start");
  if (faulty && plan.fault == "uncoordinated") ::setenv("LOCKSTEP_COORDINATION", "off", 1);
  if (faulty && plan.fault == "no_compiler") ::setenv("LOCKSTEP_CXX", "/nonexistent/c++", 1);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  auto job = Job::init(&argc, &argv);
  if (!job) return Job::report(job.error());
  return (*job)->run([&] { return train(**job); });
}
