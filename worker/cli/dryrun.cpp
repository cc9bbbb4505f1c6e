// lockstep dryrun SCENARIO|RECORD_DIR
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include <lockstep/worker/cli/subcommand.h>
#include <lockstep/worker/simulator/dry_run.h>
#include <lockstep/worker/simulator/replay.h>

namespace lockstep::worker::cli {
namespace {

struct Options {
  std::string input;
  bool json = false, no_counterfactual = false;
  std::optional<int> ranks;
  std::optional<std::uint64_t> seed;
  std::optional<std::string> report, trace, network;
};

int show(const simulator::DryRunResult& result, bool json) {
  return print_result(
      json ? simulator::result_json(result) : simulator::result_summary(result, colourful()), kOk);
}

int replay(const Options& options) {
  const auto record = simulator::read_record(options.input);
  if (!record) return complain(record.error());
  const auto replay = simulator::replay(*record);
  if (!replay) return complain(replay.error());
  for (const std::string& note : replay->notes) (void)complain(note, kOk);
  if (replay->difference) return complain(replay->difference->text(), kDiverged);
  return show(replay->result, options.json);
}

int run(const Options& options) {
  for (const auto& [name, value] : {std::pair{"--report", &options.report},
                                    {"--trace", &options.trace},
                                    {"--network", &options.network}})
    if (*value) return complain(std::string(name) + " is not available in this version.", kUsage);
  std::error_code error;
  if (std::filesystem::is_directory(options.input, error)) {
    if (!options.ranks && !options.seed) return replay(options);
    return complain("--ranks and --seed do not go with a record, which is replayed as it is.",
                    kUsage);
  }
  const auto scenario =
      simulator::load_scenario(options.input, {.world_size = options.ranks, .seed = options.seed});
  if (!scenario) return complain(scenario.error());
  const simulator::DryRunOptions how{.counterfactual = !options.no_counterfactual};
  if (const auto refused = simulator::too_large(*scenario, how)) return complain(*refused);
  return show(simulator::dry_run(*scenario, how), options.json);
}

}  // namespace

std::function<int()> declare_dryrun(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("SCENARIO", options->input, "scenario file, or directory of a recorded job")
      ->required();
  app.add_flag("--json", options->json, "print one JSON document instead of a table");
  app.add_option("--ranks", options->ranks, "world size, for a scenario with a generator")
      ->check(CLI::Range(1, simulator::kMaxWorldSize));
  app.add_option("--seed", options->seed, "seed of the scenario's generator");
  app.add_flag("--no-counterfactual", options->no_counterfactual,
               "leave out what every rank would do alone (\"uncoordinated\": null)");
  app.add_option("--report", options->report, "write a report as HTML (not there yet)");
  app.add_option("--trace", options->trace, "write a timeline as JSON (not there yet)");
  app.add_option("--network", options->network, "cost model of the network (not there yet)");
  return [options] { return run(*options); };
}

}  // namespace lockstep::worker::cli
