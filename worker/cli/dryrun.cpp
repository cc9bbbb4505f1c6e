// lockstep dryrun SCENARIO|RECORD_DIR
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include <lockstep/worker/cli/subcommand.h>
#include <lockstep/worker/simulator/dry_run.h>

namespace lockstep::worker::cli {
namespace {

struct Options {
  std::string input;
  bool json = false;
  std::optional<int> ranks;
  std::optional<std::uint64_t> seed;
  std::optional<std::string> report, trace, network;
};

int show(const simulator::DryRunResult& result, bool json) {
  return print_result(
      json ? simulator::result_json(result) : simulator::result_summary(result, colourful()), kOk);
}

int run(const Options& options) {
  for (const auto& [name, value] : {std::pair{"--report", &options.report},
                                    {"--trace", &options.trace},
                                    {"--network", &options.network}})
    if (*value) return complain(std::string(name) + " is not available in this version.", kUsage);
  const auto scenario = simulator::load_scenario(options.input);
  if (!scenario) return complain(scenario.error());
  return show(simulator::dry_run(*scenario), options.json);
}

}  // namespace

std::function<int()> declare_dryrun(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("SCENARIO", options->input, "scenario file, or directory of a recorded job")
      ->required();
  app.add_flag("--json", options->json, "print one JSON document instead of a table");
  app.add_option("--ranks", options->ranks, "world size, for a scenario with a generator");
  app.add_option("--seed", options->seed, "seed of the scenario's generator");
  app.add_option("--report", options->report, "write a report as HTML");
  app.add_option("--trace", options->trace, "write a timeline as JSON");
  app.add_option("--network", options->network, "cost model of the network");
  return [options] { return run(*options); };
}

}  // namespace lockstep::worker::cli
