// A small training program with kernels for several compile units and jagged inputs, for
// job_share_test.cpp. usage: job_share_rank CALLS   (rank 0 kills itself before call $KILL_AT_CALL)
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include <lockstep/worker/job.h>

using namespace lockstep::worker;
using lockstep::Result;

namespace {

struct Input {
  Tensor x, bias;
  template <class V>
  void fields(V& v) {
    v("x", x), v("bias", bias);
  }
};

struct Output {
  Tensor total;
  template <class V>
  void fields(V& v) {
    v("total", total);
  }
};

Tensor filled(std::vector<std::int64_t> sizes, double value) {
  Array array(lockstep::DType::F64, std::move(sizes));
  for (std::int64_t i = 0; i < array.elements(); ++i) array.set(i, value + 0.25 * double(i % 3));
  return Tensor(array);
}

/// Reductions that depend on each other, so that they do not become one kernel.
Output deep(Input in) {
  Tensor y = sum(in.x * in.x);
  for (int layer = 1; layer <= 24; ++layer)
    y = sum(exp(in.x * (-0.125 * layer)) * tanh(y * 0.001 + in.x)) + sum(in.bias) * double(layer);
  return {all_reduce(y)};
}

Output shallow(Input in) { return {all_reduce(sum(in.x * 3.0) + sum(in.bias))}; }

Result<void> train(Job& job, int calls) {
  auto step = job.frame<Input, Output>("train_step", deep);
  auto evaluate = job.frame<Input, Output>("evaluate", shallow);
  int compiled[2] = {0, 0};
  // Sizes begin to differ one after another, so a job without a profile compiles several times.
  for (int call = 0; call < calls; ++call) {
    if (const char* last = std::getenv("KILL_AT_CALL");
        last != nullptr && call == std::atoi(last) && job.rank() == 0)
      std::raise(SIGKILL);
    const std::int64_t rows = call < 1 ? 4 : 4 + (job.rank() + call) % 3;
    const std::int64_t width = call < 2 ? 6 : 6 + call % 2;
    const Input in{filled({rows, 8}, 0.5), filled({width}, 0.125)};
    for (auto* frame : {&step, &evaluate}) {
      const auto out = (*frame)(in);
      if (!out) return out.error();
      compiled[frame == &evaluate] += frame->last_compiled();
      if (job.rank() == 0) std::printf("total %.17g\n", out->total.array().at(0));
    }
  }
  std::printf("rank %d compiled train_step %d evaluate %d\n", job.rank(), compiled[0], compiled[1]);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  auto job = Job::init(&argc, &argv);
  if (!job) return Job::report(job.error());
  return (*job)->run([&] { return train(**job, std::atoi(argv[1])); });
}
