// A small training program in which rank 1 fails on request: for job_fault_test.cpp.
// usage: job_fault_rank FAULT[+prefetch] [NAME=VALUE]   the variable is set on rank 1 only
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include <unistd.h>

#include <lockstep/worker/job.h>
#include <lockstep/worker/tensor/autodiff/control_flow.h>

using namespace lockstep::worker;
using lockstep::Result;

namespace {

struct Input {
  Tensor x;
  template <class V>
  void fields(V& v) {
    v("x", x);
  }
};

struct Output {
  Tensor total;
  template <class V>
  void fields(V& v) {
    v("total", total);
  }
};

void misbehave(const std::string& fault) {
  if (fault == "throw") throw std::runtime_error("the data loader found no file");
  if (fault == "exit") std::exit(0);
  if (fault == "kill") std::raise(SIGKILL);
}

constexpr std::string_view kPrefetch = "+prefetch";

Input batch(const Job& job, int call) {
  lockstep::worker::Array x(lockstep::DType::F64, {3 + (job.rank() + call) % 3});
  for (std::int64_t i = 0; i < x.elements(); ++i) x.set(i, 0.5 + call);
  return {Tensor(x)};
}

/// The sum over all ranks of x, doubled while it is less than 0: without an end if it is.
Output doubled(const Input& in) {
  const auto negative = [](const std::vector<Tensor>& x) { return sum(x[0]) < 0.0; };
  const auto twice = [](const std::vector<Tensor>& x) { return std::vector{x[0] * 2.0}; };
  return {all_reduce(sum(while_loop(negative, twice, {in.x})[0]))};
}

Result<void> loop(Job& job) {
  auto step = job.frame<Input, Output>("train_step", doubled);
  for (int call = 0; call < 8; ++call) {
    const double value = call == 5 && job.rank() == 1 ? -1 : 1;
    const auto out =
        step({Tensor(lockstep::worker::Array::of(lockstep::DType::F64, {1}, {&value, 1}))});
    if (!out) return out.error();
  }
  return {};
}

Result<void> train(Job& job, std::string fault) {
  const bool prefetches = fault.ends_with(kPrefetch);
  if (prefetches) fault.resize(fault.size() - kPrefetch.size());
  auto step = job.frame<Input, Output>(
      "train_step", [](Input in) { return Output{all_reduce(sum(in.x * in.x))}; });
  if (prefetches) step.prefetch(batch(job, 0));
  for (int call = 0; call < 8; ++call) {
    if (call == 5 && job.rank() == 1) misbehave(fault);
    if (call == 5 && job.rank() == 1 && fault == "return") return {};
    const bool breaks = call == 5 && job.rank() == 1 && fault == "broken";
    if (prefetches && call < 7) step.prefetch(batch(job, call + 1));
    const auto out = step(batch(job, breaks ? call + 1 : call));
    if (!out) return out.error();
    if (job.rank() == 0) std::printf("total %.17g\n", out->total.array().at(0));
  }
  return {};
}

/// In call 2 rank 1 works for seconds in one step; before call 5 it does not come.
Result<void> work_long(Job& job) {
  auto step = job.frame<Input, Output>("train_step", [](Input in) {
    const SymInt n = item(amax(cast(in.x, lockstep::DType::I64)), Values::NonNegative);
    const Tensor x = cast(arange(n), lockstep::DType::F64);
    return Output{all_reduce(sum(sin(x) * sin(x) + cos(x) * cos(x)))};
  });
  for (int call = 0; call < 8; ++call) {
    if (call == 5 && job.rank() == 1) ::pause();
    const double n = call == 2 && job.rank() == 1 ? 2e8 : 100;
    const auto out =
        step({Tensor(lockstep::worker::Array::of(lockstep::DType::F64, {1}, {&n, 1}))});
    if (!out) return out.error();
    if (job.rank() == 0) std::printf("total %.17g\n", out->total.array().at(0));
  }
  return {};
}

/// When the last rank's program ends, a thread of that rank is still in its call; nobody waits for
/// this thread.
Result<void> leave_a_thread_behind(Job& job) {
  std::atomic<bool> in_call{false};
  auto step = job.frame<Input, Output>("train_step", [&](Input in) {
    const Tensor x = host_call(
        "stays", {in.x}, [](auto metas) { return metas[0]; },
        [&](auto, auto&) {
          in_call = true;
          in_call.notify_all();
          for (;;) ::pause();
        });
    return Output{all_reduce(sum(x))};
  });
  const auto call = [&] { (void)step(batch(job, 0)); };
  if (job.rank() != job.size() - 1) call();
  std::thread(call).detach();
  in_call.wait(false);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) return 2;
  const std::string fault = argv[1];
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (argc == 3 && rank != nullptr && std::strcmp(rank, "1") == 0) ::putenv(argv[2]);
  auto job = Job::init(&argc, &argv);
  if (!job) return Job::report(job.error());
  if (fault == "none" || fault == "throw" || fault == "kill" || fault == "exit" ||
      fault.ends_with(kPrefetch))
    return (*job)->run([&] { return train(**job, fault); });
  if (fault == "endless") return (*job)->run([&] { return loop(**job); });
  if (fault == "long") return (*job)->run([&] { return work_long(**job); });
  if (fault == "thread") return (*job)->run([&] { return leave_a_thread_behind(**job); });
  // Programs that do not use run().
  if (fault == "caught") {
    try {
      const std::unique_ptr<Job> mine = std::move(*job);
      if (const auto done = train(*mine, "throw"); !done) return mine->fail(done.error());
      return mine->finish() ? 0 : 1;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "caught: %s\n", error.what());
      return 1;
    }
  }
  const auto done = train(**job, fault == "uncaught" ? "throw" : fault);
  if (!done) return (*job)->fail(done.error());
  if (fault == "return" && (*job)->rank() == 1) return 0;
  const auto ended = (*job)->finish();
  return ended ? 0 : (*job)->fail(ended.error());
}
