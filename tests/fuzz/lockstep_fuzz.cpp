// The program: examines a range of seeds, or shows one. Exit codes: 0 all hold, 2 usage, 3 a seed
// failed.
#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>

#include "campaign.h"
#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace lockstep::fuzz {
namespace {

/// Processor time of all threads so far, in seconds: what a core really gave on a busy machine.
double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

std::string report(const Tally& tally, double seconds, int jobs) {
  const double busy = processor_seconds();
  const nlohmann::ordered_json out{
      {"format", "lockstep.fuzz/1"},
      {"seeds", tally.seeds},
      {"runs", tally.runs},
      {"seconds", seconds},
      {"jobs", jobs},
      {"processor_seconds", busy},
      {"seeds_per_second_per_core", static_cast<double>(tally.seeds) / busy},
      {"runs_per_second_per_core", static_cast<double>(tally.runs) / busy},
      {"operations", tally.operations},
      {"votes", tally.votes},
      {"exchanges", tally.exchanges},
      {"events", tally.events},
      {"held_against_oracle", tally.oracle},
      {"steps", tally.steps},
      {"prefetched", tally.prefetched},
      {"units_received", tally.received},
      {"restarts", tally.restarts},
      {"local_calls", tally.local},
      {"audit_findings", tally.findings},
      {"faults", tally.faults},
      {"outcomes", tally.outcomes},
      {"failures", tally.failures}};
  return out.dump(2);
}

int show(std::uint64_t seed, bool log) {
  fmt::print("{}", failure_text(seed));
  const Program program = random_program(seed);
  const bool failed = examine(program, seed).violation.has_value();
  if (log)
    for (const std::string& line : run(program, {.network_seed = seed, .record = true}).log)
      fmt::print("{}\n", line);
  return failed ? 3 : 0;
}

int main(int argc, char** argv) {
  CLI::App app{
      "Simulates random jobs with random faults and checks the invariants of the agreement."};
  std::uint64_t seed = 0, runs = 10'000;
  Campaign campaign;
  bool json = false, log = false;
  auto* one = app.add_option("--seed", seed,
                             "Show this seed alone: program, verdict, smallest failing program");
  app.add_flag("--log", log, "With --seed: every event of the network")->needs(one);
  app.add_option("--from", campaign.first, "First seed")->excludes(one);
  app.add_option("--runs", runs, "Number of seeds; each is run twice")
      ->excludes(one)
      ->check(CLI::PositiveNumber);
  app.add_option("--minutes", campaign.minutes, "Stop after so long")->excludes(one);
  app.add_option("--jobs", campaign.jobs, "Threads")->check(CLI::Range(1, 1024));
  app.add_option("--failures", campaign.most_failures, "Stop after so many failing seeds")
      ->check(CLI::PositiveNumber);
  app.add_flag("--json", json, "One JSON document on stdout");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (*one) return show(seed, log);
  campaign.last = campaign.first + runs - 1;
  const auto started = std::chrono::steady_clock::now();
  const Tally tally = examine_seeds(campaign);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  if (json)
    fmt::print("{}\n", report(tally, seconds, campaign.jobs));
  else
    fmt::print("{} seeds, {} runs in {:.1f} s, {:.0f} runs per second and core, {} failed\n",
               tally.seeds, tally.runs, seconds,
               static_cast<double>(tally.runs) / processor_seconds(), tally.failures.size());
  for (const std::uint64_t failing : tally.failures)
    fmt::print(stderr, "{}\n", failure_text(failing));
  return tally.failures.empty() ? 0 : 3;
}

}  // namespace
}  // namespace lockstep::fuzz

int main(int argc, char** argv) { return lockstep::fuzz::main(argc, argv); }
