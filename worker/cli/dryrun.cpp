// lockstep dryrun SCENARIO|RECORD_DIR
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include <lockstep/collectives/base/number_text.h>
#include <lockstep/worker/agree/process/settings.h>
#include <lockstep/worker/cli/calibrate.h>
#include <lockstep/worker/cli/subcommand.h>
#include <lockstep/worker/simulator/answers/comparison.h>
#include <lockstep/worker/simulator/answers/drawn_run.h>
#include <lockstep/worker/simulator/answers/mark_advice.h>
#include <lockstep/worker/simulator/answers/recorded_answers.h>
#include <lockstep/worker/simulator/answers/replay.h>
#include <lockstep/worker/simulator/cluster/cost_report.h>
#include <lockstep/worker/simulator/cluster/dry_run.h>
#include <lockstep/worker/simulator/cost/network_model.h>
#include <lockstep/worker/simulator/input/recorded_costs.h>
#include <lockstep/worker/simulator/report/report.h>
#include <lockstep/worker/simulator/report/summary.h>
#include <lockstep/worker/simulator/report/time_trace.h>

namespace lockstep::worker::cli {
namespace {

struct Options {
  std::string input;
  bool json = false, no_counterfactual = false, compare = false, calibrate = false;
  std::string name = "local";
  std::optional<int> ranks;
  std::optional<std::uint64_t> seed;
  std::optional<std::string> report, trace, csv, network, sweep;
};

constexpr std::string_view kConflictingOptions =
    "--compare and --no-counterfactual do not go together.";

/// Returns the folder of calibrated networks; empty if there is no cache directory.
std::string networks_folder(const Settings& settings) {
  return settings.cache_dir.empty() ? std::string() : settings.cache_dir + "/networks";
}

/// Accepts an unsigned 64-bit number in decimal digits.
const CLI::Validator kDecimal(
    [](const std::string& text) {
      return number_in<std::uint64_t>(text)
                 ? std::string()
                 : text + " is no whole number from 0 to 18446744073709551615";
    },
    "0 to 18446744073709551615");

/// A line on stderr that shows the progress of a long run, if stderr is a terminal. It is erased at
/// the end.
class ProgressLine {
 public:
  ProgressLine() = default;
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine() {
    if (shown_) (void)std::fputs("\r\033[K", stderr);
  }
  void show(std::string_view what, std::size_t done, std::size_t of) {
    const auto now = std::chrono::steady_clock::now();
    if (!terminal_ || now < next_) return;
    next_ = now + std::chrono::milliseconds(200);
    shown_ = true;
    const std::string line =
        "\r\033[K" + std::to_string(done) + " of " + std::to_string(of) + " " + std::string(what);
    (void)std::fputs(line.c_str(), stderr);
    (void)std::fflush(stderr);
  }

 private:
  bool terminal_ = isatty(STDERR_FILENO) != 0;
  bool shown_ = false;
  std::chrono::steady_clock::time_point next_ =
      std::chrono::steady_clock::now() + std::chrono::seconds(1);
};

int show(const simulator::DryRunResult& result, bool json) {
  return print_result(
      json ? simulator::result_json(result) : simulator::result_summary(result, colourful()), kOk);
}

/// A run and its analyses.
struct Outcome {
  simulator::DryRunResult result;
  std::vector<simulator::RunVariant> variants;
  std::optional<simulator::Sweep> sweep;
};

/// Writes the files that were asked for, then prints the result. Returns the exit code.
int finish(const Options& options, bool recorded, const simulator::Scenario& scenario,
           const Outcome& outcome) {
  const simulator::DryRunResult& result = outcome.result;
  const auto write = [&](std::string_view what, const std::optional<std::string>& file,
                         auto make) -> Result<void> {
    if (!file) return {};
    const std::string text = make();
    if (const auto wrong = scenario.error()) return *wrong;
    return write_whole(what, *file, text);
  };
  const auto report = [&] {
    simulator::Report made = simulator::make_report(options.input, recorded, scenario, result);
    made.variants = outcome.variants;
    made.sweep = outcome.sweep;
    return simulator::report_page(made);
  };
  for (const auto& written :
       {write("The report", options.report, report),
        write("The trace", options.trace, [&] { return simulator::time_trace(result); }),
        write("The CSV", options.csv, [&] { return simulator::calls_csv(result); })})
    if (!written) return complain(written.error());
  if (outcome.sweep)
    return print_result(options.json ? simulator::sweep_json(*outcome.sweep) : "", kOk);
  return show(result, options.json);
}

/// Returns a sentence if two of the files to be read or written are the same file.
std::optional<std::string> same_file(const Options& options) {
  std::vector<std::pair<std::string, std::string>> files{{"SCENARIO", options.input}};
  for (const auto& [name, file] : {std::pair{"--report", &options.report},
                                   {"--trace", &options.trace},
                                   {"--csv", &options.csv}}) {
    if (!*file) continue;
    std::error_code failed;
    if (part_of_record(**file, options.input))
      return std::string(name) + " " + **file + " is a part of the record; give it another name.";
    const auto place = std::filesystem::weakly_canonical(**file, failed);
    const auto same = std::find_if(files.begin(), files.end(), [&](const auto& other) {
      return std::filesystem::weakly_canonical(other.second, failed) == place;
    });
    if (same != files.end() && !std::filesystem::is_character_file(place, failed))
      return std::string(name) + " and " + same->first + " are the same file, " + **file +
             "; give each its own.";
    files.emplace_back(name, **file);
  }
  return std::nullopt;
}

/// Checks, before anything runs, the files that are to be written at the end. Returns why one of
/// them cannot be written; nullopt: all can.
std::optional<Status> cannot_write(const Options& options) {
  for (const auto& [what, file] : {std::pair{"The report", &options.report},
                                   {"The trace", &options.trace},
                                   {"The CSV", &options.csv}})
    if (*file)
      if (auto refused = writable(what, **file); !refused) return refused.error();
  return std::nullopt;
}

/// Prints what a recorded job would do on another number of ranks (--ranks). Returns the exit code.
int draw(const Options& options, simulator::RecordQuestions& questions,
         const simulator::RecordedInputs& inputs, const std::vector<simulator::RankRecord>& record,
         const simulator::Replay& replay) {
  std::optional<ProgressLine> line(std::in_place);
  questions.progress = [&line](std::string_view what, std::size_t done, std::size_t of) {
    line->show(what, done, of);
  };
  const auto run = simulator::run_drawn(inputs, record, replay, *options.ranks,
                                        options.seed.value_or(0), questions);
  line.reset();
  for (const std::string& note : replay.notes) (void)complain(note, kOk);
  if (!run) return complain(run.error());
  for (const std::string& note : run->notes) (void)complain(note, kOk);
  return finish(options, true, run->scenario,
                {.result = run->result, .variants = run->variants, .sweep = {}});
}

/// Replays a recorded job, and prints the other answers that were asked for. Returns the exit code.
int replay(const Options& options, const std::string& networks) {
  if (options.sweep)
    return complain("--sweep takes a scenario with a generator; a record takes --ranks and --seed.",
                    kUsage);
  if (options.seed && !options.ranks)
    return complain(
        "--seed needs --ranks with a record: without it the record is replayed, and nothing is "
        "drawn.",
        kUsage);
  if (!options.network && (options.trace || options.csv))
    return complain("--trace and --csv need times: with a record, those of --network.", kUsage);
  if (options.compare && options.no_counterfactual) return complain(kConflictingOptions, kUsage);
  simulator::RecordQuestions questions{.counterfactual = !options.no_counterfactual,
                                       .compare = options.compare,
                                       .cost = {},
                                       .most_spans = options.trace ? simulator::kMostTimeSpans : 0};
  if (options.network) {
    auto network = simulator::parse_network(*options.network, networks);
    if (!network) return complain(network.error());
    questions.cost.emplace().network = *std::move(network);
  }
  simulator::CostCollector costs;
  simulator::RecordedInputs inputs;
  const auto record =
      simulator::read_record(options.input, [&](const auto& rank, const auto& call) {
        if (questions.cost) costs.add(rank, call);
        if (options.ranks) inputs.add(rank, call);
      });
  if (!record) return complain(record.error());
  if (questions.cost) simulator::put_costs(costs.costs(), *questions.cost);
  auto replay = simulator::replay(*record, questions.counterfactual && !options.ranks);
  if (!replay) return complain(replay.error());
  if (options.ranks && !replay->difference)
    return draw(options, questions, inputs, *record, *replay);
  std::optional<ProgressLine> line(std::in_place);
  questions.progress = [&line](std::string_view what, std::size_t done, std::size_t of) {
    line->show(what, done, of);
  };
  Result<std::vector<simulator::RunVariant>> variants = std::vector<simulator::RunVariant>();
  if (!replay->difference)
    variants = simulator::answer(*record, questions, replay->result, replay->notes);
  line.reset();
  for (const std::string& note : replay->notes) (void)complain(note, kOk);
  if (replay->difference) return complain(replay->difference->text(), kDiverged);
  if (!variants) return complain(variants.error());
  if (replay->result.calls.empty() && !record->front().agreements.empty())
    (void)complain(
        "the record holds no calls that ranks agreed on; those that are only watched are compared "
        "and not decided.",
        kOk);
  replay->result.compare = *variants;
  simulator::Scenario scenario = simulator::scenario_of(*record);
  scenario.traces = std::make_shared<const simulator::KnownTraces>(replay->traces);
  replay->result.advice = simulator::mark_advice(scenario, replay->result, *record);
  return finish(options, true, scenario,
                {.result = replay->result, .variants = *variants, .sweep = {}});
}

/// Runs the scenario; if asked for, in several ways or with several values. Returns the exit code.
int run(const Options& options, const simulator::ScenarioOptions& read,
        const simulator::Scenario& scenario) {
  std::optional<ProgressLine> line(std::in_place);
  simulator::Profiles learnt;
  simulator::DryRunOptions how{
      .counterfactual = !options.no_counterfactual,
      .compare = options.compare || (options.report && !options.no_counterfactual),
      .progress = [&line](std::string_view what, std::size_t done,
                          std::size_t of) { line->show(what, done, of); },
      .most_spans = options.trace ? simulator::kMostTimeSpans : 0};
  how.learnt = &learnt;
  Outcome outcome;
  if (options.sweep) {
    const auto range = simulator::parse_sweep(*options.sweep);
    if (!range) return complain(range.error());
    int printed = kOk;
    const auto show_row = [&](const simulator::Sweep& so_far) {
      if (options.json || printed != kOk) return;
      line.emplace();
      const bool first = so_far.rows.size() == 1;
      printed = print_result((first ? simulator::sweep_head(so_far) : std::string()) +
                                 simulator::sweep_last_row(so_far),
                             kOk);
    };
    auto sweep = simulator::run_sweep(options.input, read, *range, how, show_row);
    if (!sweep) return complain(sweep.error());
    if (printed != kOk) return printed;
    outcome.sweep = *std::move(sweep);
  }
  if (!options.sweep || options.report) {
    if (const auto refused = simulator::too_large(scenario, how)) return complain(*refused);
    outcome.result = simulator::dry_run(scenario, how);
    if (how.compare)
      outcome.variants =
          simulator::compare_variants(scenario, outcome.result, learnt, how.progress);
    if (options.compare) outcome.result.compare = outcome.variants;
  }
  line.reset();
  if (const auto wrong = scenario.error()) return complain(*wrong);
  return finish(options, false, scenario, outcome);
}

int run(const Options& options) {
  if (options.calibrate != options.input.empty())
    return complain(options.calibrate ? "--calibrate takes no SCENARIO; see lockstep dryrun --help."
                                      : "SCENARIO is required; see lockstep dryrun --help.",
                    kUsage);
  const auto settings = Settings::from_environment();
  if (!settings && (options.calibrate || options.network)) return complain(settings.error());
  const std::string networks = settings ? networks_folder(*settings) : std::string();
  if (options.calibrate && options.json)
    return complain("--calibrate has no JSON to print.", kUsage);
  if (options.calibrate) return calibrate(options.name, networks);
  if (const auto same = same_file(options)) return complain(*same, kUsage);
  if (const auto refused = cannot_write(options)) return complain(*refused);
  std::error_code error;
  if (std::filesystem::is_directory(options.input, error)) return replay(options, networks);
  if (options.sweep && std::filesystem::is_fifo(options.input, error))
    return complain("--sweep reads the scenario once for each value; give it a file, not a pipe.",
                    kUsage);
  simulator::ScenarioOptions read{.world_size = options.ranks, .seed = options.seed};
  read.networks = networks;
  if (options.network) {
    auto network = simulator::parse_network(*options.network, read.networks);
    if (!network) return complain(network.error());
    read.network = *std::move(network);
  }
  const auto scenario = simulator::load_scenario(options.input, read);
  if (!scenario) return complain(scenario.error());
  if (!scenario->cost && (options.trace || options.csv))
    return complain("--trace and --csv need times: a cost section in the scenario, or --network.",
                    kUsage);
  if (options.sweep && (options.trace || options.csv || options.compare))
    return complain("--trace, --csv and --compare do not go with --sweep, which is several runs.",
                    kUsage);
  if (options.sweep && !options.report &&
      (options.sweep->starts_with("ranks=") ? options.ranks.has_value() : options.seed.has_value()))
    return complain("--sweep and --ranks, or --seed, say the same thing twice.", kUsage);
  if (options.compare && options.no_counterfactual) return complain(kConflictingOptions, kUsage);
  return run(options, read, *scenario);
}

/// Declares the options that say what to run.
void add_runs(CLI::App& app, Options& options) {
  app.add_option("SCENARIO", options.input, "scenario file, or directory of a recorded job")
      ->type_name("FILE|DIR");
  app.add_flag("--json", options.json, "print one JSON document instead of a table");
  app.add_option(
         "--ranks", options.ranks,
         "world size, for a scenario with a generator; with a record, ranks that draw their "
         "inputs from the recorded ones")
      ->type_name("N")
      ->check(kDecimal.description(""))
      ->check(
          CLI::Range(1, simulator::kMaxWorldSize, fmt::format("1 to {}", simulator::kMaxWorldSize)))
      ->default_str("the scenario's");
  app.add_option("--seed", options.seed, "seed of the scenario's generator, or of a record's draws")
      ->type_name("S")
      ->check(kDecimal)
      ->default_str("the scenario's, else 0");
  app.add_flag("--no-counterfactual", options.no_counterfactual,
               "leave out what every rank would do alone (\"uncoordinated\": null)");
  app.add_flag("--compare", options.compare,
               "the same job in other ways, too: without coordination, upstream's way, with a "
               "profile, marked as suggested");
  app.add_option("--sweep", options.sweep,
                 "run it at several values: ranks=8..131072 (doubling), ranks=8,64,512, seed=1..5; "
                 "not with a record")
      ->type_name("ranks=VALUES|seed=VALUES");
}

/// Declares the options that ask for more than the result of the run.
void add_answers(CLI::App& app, Options& options) {
  app.add_option("--report", options.report,
                 "HTML file to write, too: a page with what compiled, why, and what to mark")
      ->type_name("FILE.html");
  app.add_option("--network", options.network,
                 "what the run takes over a built-in network, a calibrated one, or one of alpha "
                 "microseconds and beta gigabytes a second")
      ->type_name(
          fmt::format("{}|NAME|alpha=US,beta=GBPS", fmt::join(simulator::network_names(), "|")))
      ->default_str("the scenario's cost section, else no times");
  app.add_option("--trace", options.trace,
                 "write the timeline of ranks, for Perfetto; it needs times")
      ->type_name("FILE.json");
  app.add_option("--csv", options.csv, "write what each call took; it needs times")
      ->type_name("FILE");
  auto* calibrating = app.add_flag(
      "--calibrate", options.calibrate,
      "under mpirun, without SCENARIO: measure this machine and store it as a network");
  app.add_option("--name", options.name,
                 "name of the network that --calibrate stores: 1 to 64 letters, digits, dots, "
                 "dashes and underscores, no dot first")
      ->type_name("NAME")
      ->capture_default_str()
      ->needs(calibrating);
}

HelpNotes dryrun_notes() {
  return {.usage = {"lockstep dryrun [OPTIONS] SCENARIO", "lockstep dryrun [OPTIONS] RECORD_DIR",
                    "mpirun -n N lockstep dryrun --calibrate [--name NAME]"},
          .text =
              "A record is replayed: its decisions must be those recorded. With --ranks it then "
              "tells how often such a job compiles on so many ranks, and what to mark.",
          .codes = {{kUsage, "wrong usage or input, or a record that cannot answer"},
                    {kDiverged, "an action of a replay is not the recorded one"},
                    {kEnvironment, "a file cannot be written; --calibrate: no MPI in this build"}},
          .variables = {"LOCKSTEP_CACHE_DIR", "NO_COLOR"},
          .examples = {"lockstep dryrun scenario.json --ranks 1024 --compare --report report.html",
                       "lockstep dryrun scenario.json --sweep ranks=8..131072 --network rdma",
                       "LOCKSTEP_RECORD=DIR mpirun -n 4 ./train && lockstep dryrun DIR --json",
                       "lockstep dryrun DIR --ranks 1024"}};
}

}  // namespace

std::function<int()> declare_dryrun(CLI::App& app) {
  auto options = std::make_shared<Options>();
  add_runs(app, *options);
  add_answers(app, *options);
  describe(app, dryrun_notes());
  return [options] { return run(*options); };
}

}  // namespace lockstep::worker::cli
