// lockstep trace --of N (--all | --rank R) PROGRAM [ARGUMENT…]
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include <lockstep/worker/agree/process/settings.h>
#include <lockstep/worker/cli/scratch.h>
#include <lockstep/worker/cli/subcommand.h>
#include <lockstep/worker/cli/trace_ranks.h>
#include <lockstep/worker/cli/trace_report.h>

namespace lockstep::worker::cli {
namespace {

/// Most ranks with --all: each is a process, with a connection to every other.
constexpr int kMostProcesses = 256;
constexpr int kMostRanks = 1 << 24;

struct TraceOptions {
  const CLI::App* app = nullptr;
  int size = 0, rank = -1;
  std::uint64_t calls = 8;
  bool all = false, json = false, graphs = false;
  std::string save;
};

bool can_be_run(const std::string& path) {
  std::error_code failed;
  return std::filesystem::is_regular_file(path, failed) && ::access(path.c_str(), X_OK) == 0;
}

/// Finds a program as a shell does; empty: not found.
std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return can_be_run(name) ? name : "";
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (const std::string at = (folder.empty() ? "." : folder) + "/" + name; can_be_run(at))
      return at;
  return {};
}

/// Returns what is wrong with the options; empty: nothing is.
std::string usage_error(const TraceOptions& options, const std::vector<std::string>& words) {
  if (options.app->count("--of") == 0)
    return "it is not said how many ranks the job is to have (--of N)";
  if (options.size < 1 || options.size > kMostRanks)
    return fmt::format("--of {} is no number of ranks from 1 to {}", options.size, kMostRanks);
  const bool one = options.app->count("--rank") > 0;
  if (one == options.all) return "give one of --all and --rank R";
  if (one && (options.rank < 0 || options.rank >= options.size))
    return fmt::format("--rank {} is no rank of {}, which are 0 to {}", options.rank, options.size,
                       options.size - 1);
  if (options.all && options.size > kMostProcesses)
    return fmt::format("--all starts a process for each rank, up to {}; take fewer, or --rank R",
                       kMostProcesses);
  if (words.empty()) return "there is no program to trace";
  if (words[0].starts_with('-')) return "there is no option " + words[0];
  return {};
}

int run(const TraceOptions& options) {
  std::vector<std::string> words = options.app->remaining();
  if (!words.empty() && words[0] == "--") words.erase(words.begin());
  if (const std::string wrong = usage_error(options, words); !wrong.empty())
    return complain(wrong + "; see lockstep trace --help.", kUsage);
  const std::string program = find_program(words[0]);
  if (program.empty())
    return complain("there is no program " + words[0] + " that can be run.", kUsage);
  const auto settings = Settings::from_environment();
  if (!settings) return complain(settings.error());
  const Scratch scratch("lockstep-trace");
  if (scratch.path().empty())
    return complain("no folder for the trace can be made; see TMPDIR.", kEnvironment);
  words[0] = program;
  TraceRun traced{.size = options.size,
                  .calls = options.calls,
                  .saves = !options.save.empty(),
                  .command = words,
                  .folder = scratch.path(),
                  .deadline = settings->deadline};
  if (!options.all) traced.alone = options.rank;
  const auto ended = run_traced_ranks(traced);
  if (!ended) return complain(ended.error());
  const auto report = trace_report(traced, *ended, options.graphs);
  if (!report) return complain(report.error());
  if (!report->made_job) return complain(report->complaint, report->exit_code);
  std::string saved;
  if (!options.save.empty()) {
    auto files = save_traced_programs(traced.folder, options.save);
    if (!files) return complain(files.error());
    for (const std::string& line : *files) saved += line + "\n";
    if (options.json) std::fputs(saved.c_str(), stderr);
  }
  const int printed = print_result(options.json ? report->json : report->text + saved, kOk);
  if (printed != kOk) return printed;
  return report->complaint.empty() ? kOk : complain(report->complaint, report->exit_code);
}

}  // namespace

std::function<int()> declare_trace(CLI::App& app) {
  auto options = std::make_shared<TraceOptions>();
  options->app = &app;
  app.prefix_command();
  app.add_option("--of", options->size, "how many ranks the job has; up to 256 with --all")
      ->type_name(fmt::format("N:required; 1 to {}", kMostRanks));
  app.add_flag(
      "--all", options->all,
      "start the program once for each rank, on this machine; the ranks agree as in a job");
  app.add_option("--rank", options->rank,
                 "start it once, as this rank; all others are taken to see its sizes")
      ->type_name("R:0 to N - 1");
  app.add_option("--calls", options->calls, "a rank ends after so many calls of frames")
      ->type_name("K")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000'000}, "1 to 1000000000"))
      ->capture_default_str();
  app.add_option("--save", options->save,
                 "write the program of each frame there, for lockstep run and show")
      ->type_name("DIR");
  app.add_flag("--graph", options->graphs, "print the graphs, too");
  app.add_flag("--json", options->json, "print one JSON document, with the graphs");
  describe(
      app,
      {.usage = {"lockstep trace --of N (--all | --rank R) [OPTIONS] PROGRAM [ARGUMENT...]"},
       .text = "What comes after PROGRAM is the program's own, and so is an exit code that is not "
               "below. What ranks print goes to stderr; they log nothing unless LOCKSTEP_LOG "
               "says so.",
       .codes = {{kUsage, "wrong usage, or the program makes no job"},
                 {kDiverged, "the ranks differ (--all), or fail together"},
                 {4, "ranks wait for one that does not come"},
                 {5, "a rank dies"},
                 {6, "ranks of different builds"}},
       .variables = {"LOCKSTEP_LOG", "LOCKSTEP_DEADLINE_SECONDS", "TMPDIR"},
       .examples = {"lockstep trace --of 4 --all ./train --steps 10",
                    "lockstep trace --of 1024 --rank 7 --graph ./train",
                    "lockstep trace --of 4 --all --save programs ./train"}});
  return [options] { return run(*options); };
}

}  // namespace lockstep::worker::cli
