// Prefetch: the ranks agree on the next call while this call runs. The program makes the same
// steps, on batches of varying sizes, without and with prefetch. The results are equal, but the
// ranks wait less for the agreement with prefetch.
//
//   mpirun -n 2 prefetch [STEPS]     default 200; prints the times of agreements on rank 0
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <lockstep/worker/job.h>

using namespace lockstep::worker;
using lockstep::Result;

constexpr std::int64_t kWidth = 64, kLayers = 20;

struct Input {
  Tensor x, weights;  // [rows, width], [width, width]
  template <class V>
  void fields(V& v) {
    v("x", x), v("weights", weights);
  }
};

struct Output {
  Tensor total;
  template <class V>
  void fields(V& v) {
    v("total", total);
  }
};

/// Many kernels, between which the vote on the next call can advance.
Output layers(Input in) {
  Tensor x = in.x;
  for (std::int64_t layer = 0; layer < kLayers; ++layer) x = tanh(matmul(x, in.weights));
  return {all_reduce(sum(x * x))};
}

Input batch(const Job& job, int step) {
  Array x(lockstep::DType::F64, {100 + (7 * job.rank() + 11 * step) % 50, kWidth});
  Array weights(lockstep::DType::F64, {kWidth, kWidth});
  for (std::int64_t i = 0; i < x.elements(); ++i) x.set(i, 0.01 * static_cast<double>(i % 97));
  for (std::int64_t i = 0; i < weights.elements(); ++i)
    weights.set(i, 0.02 * static_cast<double>(i % 13 - 6));
  return {x, weights};
}

struct Ran {
  std::vector<double> totals, microseconds;
};

Result<Ran> run(Job& job, int steps, bool prefetch) {
  auto step = job.frame<Input, Output>(prefetch ? "ahead" : "plain", layers);
  Ran out;
  for (int s = 0; s < steps; ++s) {
    // Commits to the next call. The call of this step was committed to in the step before.
    if (prefetch && s == 0) step.prefetch(batch(job, s));
    if (prefetch && s + 1 < steps) step.prefetch(batch(job, s + 1));
    const auto done = step(batch(job, s));
    if (!done) return done.error();
    out.totals.push_back(done->total.array().at(0));
    const std::chrono::duration<double, std::micro> agreed = step.last_agreement();
    out.microseconds.push_back(agreed.count());
  }
  return out;
}

double at_quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
}

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 200;
  if (steps < 10) {
    std::fprintf(stderr, "prefetch: STEPS is a number of at least 10.\n");
    return 2;
  }
  auto job = Job::init(&argc, &argv);
  if (!job) return Job::report(job.error());
  return (*job)->run([&]() -> Result<void> {
    const auto plain = run(**job, steps, false), ahead = run(**job, steps, true);
    if (!plain) return plain.error();
    if (!ahead) return ahead.error();
    if (plain->totals != ahead->totals)
      return lockstep::Status{lockstep::Code::Internal, "prefetch changed a result", {}, {}};
    if ((*job)->rank() == 0) {
      for (int s = 0; s < steps; s += steps / 10)
        std::printf("step %3d: agreed in %8.2f us, prefetched in %8.2f us\n", s,
                    plain->microseconds[static_cast<std::size_t>(s)],
                    ahead->microseconds[static_cast<std::size_t>(s)]);
      for (const double q : {0.5, 0.9})
        std::printf("%s: %.2f us without, %.2f us with prefetch\n", q < 0.6 ? "median" : "90 %",
                    at_quantile(plain->microseconds, q), at_quantile(ahead->microseconds, q));
      std::printf("the results are the same\n");
    }
    return {};
  });
}
