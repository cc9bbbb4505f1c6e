// lockstep trace --of N (--all | --rank R) PROGRAM [ARGUMENT…]
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include <lockstep/worker/cli/scratch.h>
#include <lockstep/worker/cli/subcommand.h>
#include <lockstep/worker/cli/trace_ranks.h>
#include <lockstep/worker/cli/trace_report.h>
#include <lockstep/worker/process/settings.h>

namespace lockstep::worker::cli {
namespace {

/// Each rank is a process, with a connection to each other one.
constexpr int kMostProcesses = 256;
constexpr int kMostRanks = 1 << 24;

struct TraceOptions {
  const CLI::App* app = nullptr;
  int size = 0, rank = -1;
  std::uint64_t calls = 8;
  bool all = false, json = false, graphs = false;
};

bool can_be_run(const std::string& path) {
  std::error_code failed;
  return std::filesystem::is_regular_file(path, failed) && ::access(path.c_str(), X_OK) == 0;
}

/// As a shell finds it; empty where there is none.
std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return can_be_run(name) ? name : "";
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (const std::string at = (folder.empty() ? "." : folder) + "/" + name; can_be_run(at))
      return at;
  return {};
}

/// What is wrong with the wishes; empty: nothing.
std::string usage_error(const TraceOptions& wishes, const std::vector<std::string>& words) {
  if (wishes.app->count("--of") == 0) return "it is not said how many ranks the job is to have (--of N)";
  if (wishes.size < 1 || wishes.size > kMostRanks)
    return fmt::format("--of {} is no number of ranks from 1 to {}", wishes.size, kMostRanks);
  const bool one = wishes.app->count("--rank") > 0;
  if (one == wishes.all) return "give one of --all and --rank R";
  if (one && (wishes.rank < 0 || wishes.rank >= wishes.size))
    return fmt::format("--rank {} is no rank of {}, which are 0 to {}", wishes.rank, wishes.size,
                       wishes.size - 1);
  if (wishes.all && wishes.size > kMostProcesses)
    return fmt::format("--all starts a process for each rank, up to {}; take fewer, or --rank R",
                       kMostProcesses);
  if (words.empty()) return "there is no program to trace";
  if (words[0].starts_with('-')) return "there is no option " + words[0];
  return {};
}

int run(const TraceOptions& wishes) {
  std::vector<std::string> words = wishes.app->remaining();
  if (!words.empty() && words[0] == "--") words.erase(words.begin());
  if (const std::string wrong = usage_error(wishes, words); !wrong.empty())
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
  TraceRun traced{.size = wishes.size,
                  .calls = wishes.calls,
                  .command = words,
                  .folder = scratch.path(),
                  .deadline = settings->deadline};
  if (!wishes.all) traced.alone = wishes.rank;
  const auto ended = run_traced_ranks(traced);
  if (!ended) return complain(ended.error());
  const auto report = trace_report(traced, *ended, wishes.graphs);
  if (!report) return complain(report.error());
  if (!report->made_job) return complain(report->complaint, report->exit_code);
  const int printed = print_result(wishes.json ? report->json : report->text, kOk);
  if (printed != kOk) return printed;
  return report->complaint.empty() ? kOk : complain(report->complaint, report->exit_code);
}

}  // namespace

std::function<int()> declare_trace(CLI::App& app) {
  auto wishes = std::make_shared<TraceOptions>();
  wishes->app = &app;
  app.prefix_command();
  app.footer("lockstep trace --of N (--all | --rank R) [OPTIONS] PROGRAM [ARGUMENT...]\n"
             "What comes after PROGRAM is the program's own.");
  app.add_option("--of", wishes->size, "how many ranks the job has");
  app.add_flag("--all", wishes->all,
               "start the program once for each rank, on this machine; the ranks agree as in a job "
               "(3 where they cannot)");
  app.add_option("--rank", wishes->rank,
                 "start it once, as this rank; all others are taken to see its sizes");
  app.add_option("--calls", wishes->calls, "a rank ends after so many calls of frames")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000'000}))
      ->capture_default_str();
  app.add_flag("--graph", wishes->graphs, "print the graphs, too");
  app.add_flag("--json", wishes->json, "print one JSON document, with the graphs");
  return [wishes] { return run(*wishes); };
}

}  // namespace lockstep::worker::cli
