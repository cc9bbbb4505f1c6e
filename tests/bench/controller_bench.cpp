// What a controller costs: calls that it issues in a second, and a step under it against the same
// step of ranks that call it themselves, taken in turn.
//
// usage: controller_bench --workers N [--batches B] [--calls C] [--products P] [--out FILE]
// In the root of the repository: it starts the workers, and ranks of itself (with --rank), under
// scripts/mpirun.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/worker/controller/controller.h>
#include <lockstep/worker/job.h>

using namespace lockstep;
using namespace lockstep::worker;

namespace {

using Time = std::chrono::steady_clock;
double seconds_since(Time::time_point begin) {
  return std::chrono::duration<double>(Time::now() - begin).count();
}
double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

struct In {
  Tensor x, w;
  template <class V>
  void fields(V& v) {
    v("x", x), v("w", w);
  }
};
struct Out {
  Tensor x;
  template <class V>
  void fields(V& v) {
    v("x", x);
  }
};
/// Hardly any work: what is left is the call.
Out small(In in) { return {in.x + in.w}; }
/// As many products as fill a step, and a sum over the ranks.
Out step_of(const In& in, int products) {
  Tensor x = in.x;
  for (int i = 0; i < products; ++i) x = tanh(matmul(x, in.w));
  return {x + all_reduce(sum(x)) * 0.0};
}
Array numbers(std::vector<std::int64_t> sizes) {
  Array out(DType::F32, std::move(sizes));
  for (std::int64_t i = 0; i < out.elements(); ++i) out.set(i, 0.001 * static_cast<double>(i % 97));
  return out;
}

struct Options {
  int workers = 1, batches = 9, calls = 20'000, steps = 200, products = 6;
  bool rank = false;
  std::string out;
};

/// One that ends with the loop that it runs: a rank without a controller. Prints seconds per step.
int be_a_rank(const Options& options) {
  auto job = Job::init(nullptr, nullptr, {.summary = false});
  if (!job) return Job::report(job.error());
  auto step =
      (*job)->frame<In, Out>("step", [&](const In& in) { return step_of(in, options.products); });
  return (*job)->run([&]() -> Result<void> {
    Tensor x = numbers({128, 256}), w = numbers({256, 256});
    Time::time_point begin;
    for (int i = -20; i < options.steps; ++i) {
      if (i == 0) begin = Time::now();
      auto out = step({x, w});
      if (!out) return out.error();
      x = out->x;
    }
    (void)x.array().at(0);
    if ((*job)->rank() == 0) std::printf("%.9f\n", seconds_since(begin) / options.steps);
    return {};
  });
}

double rank_step(const Options& options) {
  const std::string command =
      fmt::format("scripts/mpirun -t 300 -n {} /proc/{}/exe --rank --steps {} --products {}",
                  options.workers, ::getpid(), options.steps, options.products);
  FILE* pipe = ::popen(command.c_str(), "r");
  double seconds = 0;
  if (pipe == nullptr || std::fscanf(pipe, "%lf", &seconds) != 1) std::exit(7);
  ::pclose(pipe);
  return seconds;
}

/// Workers of this process's own, and a controller of them.
class Workers {
 public:
  explicit Workers(int count) {
    const std::string file = fmt::format("/tmp/controller_bench.{}", ::getpid());
    const std::string beside = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    pid_ = ::fork();
    if (pid_ == 0) {
      const std::string command = fmt::format(
          "exec scripts/mpirun -t 300 -n {} {}/lockstep_worker_program --address-file {} >&2",
          count, beside, file);
      ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      ::_exit(127);
    }
    while (!std::filesystem::exists(file))
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    auto made = Controller::connect(file);
    if (!made) std::exit(Job::report(made.error()));
    controller = *std::move(made);
  }
  ~Workers() {
    (void)controller->finish();
    ::waitpid(pid_, nullptr, 0);
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  std::unique_ptr<Controller> controller;

 private:
  pid_t pid_ = -1;
};

template <class T>
T good(Result<T> result) {
  if (!result) std::exit(Job::report(result.error()));
  return *std::move(result);
}
void good(const Result<void>& result) {
  if (!result) std::exit(Job::report(result.error()));
}

/// Seconds per call, from the first one to the end of the last on the workers.
double time_calls(Controller& controller, RemoteFrame<In, Out>& frame, Tensor x, const Tensor& w,
                  int calls) {
  good(controller.settle());
  const auto begin = Time::now();
  for (int i = 0; i < calls; ++i) x = good(frame({x, w})).x;
  good(controller.settle());
  return seconds_since(begin) / calls;
}

int measure(const Options& options) {
  std::vector<double> calls, under, alone, ratios;
  for (int batch = 0; batch < options.batches; ++batch) {
    Workers workers(options.workers);
    Controller& controller = *workers.controller;
    auto frame = good(controller.frame<In, Out>("small", small));
    auto step = good(controller.frame<In, Out>(
        "step", [&](const In& in) { return step_of(in, options.products); }));
    const Tensor s = good(controller.put(numbers({8})));
    (void)time_calls(controller, frame, s, s, 200);
    calls.push_back(time_calls(controller, frame, s, s, options.calls));
    const Tensor x = good(controller.put(numbers({128, 256})));
    const Tensor w = good(controller.put(numbers({256, 256})));
    (void)time_calls(controller, step, x, w, 20);
    const double before = rank_step(options);
    under.push_back(time_calls(controller, step, x, w, options.steps));
    alone.push_back((before + rank_step(options)) / 2);
    ratios.push_back(under.back() / alone.back());
  }
  const nlohmann::ordered_json document{{"format", "lockstep.controller_bench/1"},
                                        {"workers", options.workers},
                                        {"batches", options.batches},
                                        {"calls_per_second", 1 / median(calls)},
                                        {"step_ms", 1e3 * median(under)},
                                        {"step_alone_ms", 1e3 * median(alone)},
                                        {"ratio", median(ratios)},
                                        {"ratio_least", *std::ranges::min_element(ratios)},
                                        {"ratio_most", *std::ranges::max_element(ratios)}};
  std::printf("%s\n", document.dump().c_str());
  if (!options.out.empty()) std::ofstream(options.out) << document.dump() << "\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("The cost of a controller.", "controller_bench");
  Options options;
  app.add_option("--workers", options.workers);
  app.add_option("--batches", options.batches);
  app.add_option("--calls", options.calls);
  app.add_option("--steps", options.steps);
  app.add_option("--products", options.products, "products of a step: its length");
  app.add_flag("--rank", options.rank);
  app.add_option("--out", options.out);
  CLI11_PARSE(app, argc, argv);
  return options.rank ? be_a_rank(options) : measure(options);
}
