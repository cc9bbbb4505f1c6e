// A training program with slow calls, for coordinator_job_test.cpp.
// usage: coordinator_job_rank CALLS MILLISECONDS [stall SECONDS | hold FILE]
//   stall: rank 1 sleeps so long at call 5; hold: before the last call all wait, a minute at most,
//   until FILE is there
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>

#include <lockstep/worker/job.h>

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

struct Plan {
  int calls = 0;
  std::chrono::milliseconds pause{0};
  std::chrono::seconds stall{0};
  std::string hold;
};

Result<void> train(Job& job, const Plan& plan) {
  auto step = job.frame<Input, Output>(
      "train_step", [](Input in) { return Output{all_reduce(sum(in.x * in.x))}; });
  for (int call = 0; call < plan.calls; ++call) {
    if (call == 5 && job.rank() == 1) std::this_thread::sleep_for(plan.stall);
    if (call == plan.calls - 1 && !plan.hold.empty())
      for (int tries = 0; tries < 1200 && !std::filesystem::exists(plan.hold); ++tries)
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::this_thread::sleep_for(plan.pause);
    lockstep::worker::Array x(lockstep::DType::F64, {3 + (job.rank() + call) % 3});
    for (std::int64_t i = 0; i < x.elements(); ++i) x.set(i, 0.5 + call);
    const auto out = step({Tensor(x)});
    if (!out) return out.error();
    if (job.rank() == 0) {
      std::printf("total %.17g\n", out->total.array().at(0));
      std::fflush(stdout);
    }
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 5) return 2;
  auto job = Job::init(&argc, &argv);
  if (!job) return Job::report(job.error());
  Plan plan{std::atoi(argv[1]), std::chrono::milliseconds(std::atoi(argv[2]))};
  if (argc == 5 && std::string_view(argv[3]) == "stall")
    plan.stall = std::chrono::seconds(std::atoi(argv[4]));
  if (argc == 5 && std::string_view(argv[3]) == "hold") plan.hold = argv[4];
  return (*job)->run([&] { return train(**job, plan); });
}
