#include "training.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <limits>
#include <string>

#include <sys/resource.h>

namespace lockstep::suite {
namespace {

using namespace worker;  // NOLINT: a training program reads like a user's
using collectives::Reduce;

/// So large that the losses depend on the scale of gradients, too.
constexpr double kEps = 1e-3;

struct Learnt {
  Tensors parameters;
  AdamState adam;
  template <class V>
  void fields(V& v) {
    v("parameters", parameters), v("adam", adam);
  }
};
struct StepInput {
  Learnt learnt;
  Tensors batch;
  template <class V>
  void fields(V& v) {
    v("learnt", learnt), v("batch", batch);
  }
};
struct StepOutput {
  Learnt learnt;
  Tensor loss;
  template <class V>
  void fields(V& v) {
    v("learnt", learnt), v("loss", loss);
  }
};

StepOutput step_of(const Workload& workload, const StepInput& in, int ranks) {
  const Tensors& parameters = in.learnt.parameters;
  const Tensor loss = workload.loss(parameters, in.batch);
  Tensors gradients = grad(loss, parameters);
  if (const auto replicas = workload.replicas(); replicas && ranks > 1)
    for (Tensor& gradient : gradients) gradient = all_reduce(gradient, Reduce::Sum, *replicas);
  auto [after, adam_after] = adam(parameters, gradients, in.learnt.adam, {.eps = kEps});
  return {{std::move(after), std::move(adam_after)}, all_reduce(loss)};
}

/// One number of each rank and step, joined over the ranks.
struct Measured {
  Tensor slowest, total;  // f64 [steps]
  template <class V>
  void fields(V& v) {
    v("slowest", slowest), v("total", total);
  }
};

double seconds(const timeval& t) {
  return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
}
double processor_s() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// The peak of resident memory, counted anew from here on.
void reset_peak() { std::ofstream("/proc/self/clear_refs") << 5; }
double peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (double kib = 0; word == "VmHWM:" && status >> kib) return kib * 1024;
  return std::numeric_limits<double>::quiet_NaN();
}

Tensor column(const std::vector<double>& values) {
  return Array::of(DType::F64, {static_cast<std::int64_t>(values.size())}, values);
}
std::vector<double> numbers_of(const Tensor& tensor) {
  std::vector<double> out;
  for (std::int64_t i = 0; i < tensor.array().elements(); ++i) out.push_back(tensor.array().at(i));
  return out;
}

}  // namespace

Result<Figures> train(Job& job, const Workload& workload, int steps, int warm) {
  const int ranks = job.size();
  auto step = job.frame<StepInput, StepOutput>(
      "step", [&](const StepInput& in) { return step_of(workload, in, ranks); });
  auto join = job.frame<Measured, Measured>("join", [](const Measured& mine) {
    return Measured{all_reduce(mine.slowest, Reduce::Max), all_reduce(mine.total)};
  });
  Figures out;
  std::vector<double> wall;
  Learnt learnt{workload.parameters(), {}};
  learnt.adam = adam_start(learnt.parameters);
  for (int s = 0; s < steps; ++s) {
    if (s == warm) reset_peak();
    Tensors batch = workload.batch(s);
    const double processor = processor_s();
    const auto begin = std::chrono::steady_clock::now();
    auto made = step({std::move(learnt), std::move(batch)});
    if (!made) return made.error();
    out.losses.push_back(made->loss.array().at(0));
    wall.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    out.cpu_s.push_back(processor_s() - processor);
    out.compiled.push_back(step.last_compiled() ? 1 : 0);
    out.fallbacks += step.last_call().ends_with("interpreted") ? 1 : 0;
    learnt = std::move(made->learnt);
  }
  wall.push_back(peak_bytes());
  const auto all = join({column(wall), column(out.cpu_s)});
  if (!all) return all.error();
  out.wall_s = numbers_of(all->slowest), out.cpu_s = numbers_of(all->total);
  out.peak_bytes = out.wall_s.back();
  out.wall_s.pop_back();
  return out;
}

}  // namespace lockstep::suite
