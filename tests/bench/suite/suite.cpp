// Trains one workload of the suite and prints what its steps took, as one JSON object on rank 0.
// Started by scripts/dashboard, beside torch_suite.py, and by suite_test.py.
//
// usage: scripts/mpirun -n RANKS lockstep_suite WORKLOAD [--size tiny|full] [--dtype f32|f64]
//        [--steps N] [--warm N]
#include <cstdio>
#include <string>
#include <vector>

#include "training.h"
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace {

using namespace lockstep;  // NOLINT: a program of its own

struct Options {
  std::string workload, size = "full", dtype = "f32";
  int steps = 5, warm = 2;
};

void print(const Options& options, int ranks, const suite::Figures& figures) {
  const nlohmann::json out{{"side", "lockstep"},
                           {"workload", options.workload},
                           {"size", options.size},
                           {"dtype", options.dtype},
                           {"ranks", ranks},
                           {"warm", options.warm},
                           {"losses", figures.losses},
                           {"wall_s", figures.wall_s},
                           {"cpu_s", figures.cpu_s},
                           {"compiled", figures.compiled},
                           {"fallbacks", figures.fallbacks},
                           {"peak_bytes", figures.peak_bytes}};
  std::printf("%s\n", out.dump().c_str());
}

/// The half of the ranks that has this rank.
Result<worker::Group> half_of(worker::Job& job) {
  const int size = job.size() / 2, first = job.rank() / size * size;
  return job.group("half", RankSet::range({first}, {first + size - 1}));
}

Result<void> run(worker::Job& job, const Options& options) {
  worker::Group half;
  if (job.size() > 1) {
    const auto declared = half_of(job);
    if (!declared) return declared.error();
    half = *declared;
  }
  for (const suite::NamedWorkload& workload : suite::kWorkloads) {
    if (workload.name != options.workload) continue;
    const auto made = workload.make({.dtype = options.dtype == "f64" ? DType::F64 : DType::F32,
                                     .tiny = options.size == "tiny",
                                     .rank = job.rank(),
                                     .ranks = job.size(),
                                     .half = half});
    const auto figures = suite::train(job, *made, options.steps, options.warm);
    if (!figures) return figures.error();
    if (job.rank() == 0) print(options, job.size(), *figures);
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> names;
  for (const suite::NamedWorkload& workload : suite::kWorkloads) names.emplace_back(workload.name);
  Options options;
  CLI::App app("Trains one workload of the suite.");
  app.add_option("workload", options.workload)->required()->check(CLI::IsMember(names));
  app.add_option("--size", options.size)
      ->check(CLI::IsMember({"tiny", "full"}))
      ->capture_default_str();
  app.add_option("--dtype", options.dtype)
      ->check(CLI::IsMember({"f32", "f64"}))
      ->capture_default_str();
  app.add_option("--steps", options.steps)->check(CLI::Range(1, 1000000))->capture_default_str();
  app.add_option("--warm", options.warm, "Steps at first that do not count for the peak of memory")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  // All ranks read the same options; one rank prints what is wrong with them.
  const bool first = worker::rank_if_known() == 0;
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    if (first) std::fputs(app.help().c_str(), stdout);
    return 0;
  } catch (const CLI::ParseError& error) {
    if (first)
      std::fprintf(stderr, "lockstep_suite: %s; see lockstep_suite --help.\n", error.what());
    return 2;
  }
  auto job = worker::Job::init(&argc, &argv, {.summary = false});
  if (!job) return worker::Job::report(job.error());
  if (4 % (*job)->size() != 0)
    return (*job)->fail({.code = Code::BadInput,
                         .message = "The batches are shared evenly among 1, 2 or 4 ranks.",
                         .source = {},
                         .groups = {}});
  return (*job)->run([&] { return run(**job, options); });
}
