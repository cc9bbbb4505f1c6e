// The one `lockstep` binary: runs the subcommand and returns its exit code.
#include <algorithm>
#include <exception>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <lockstep/worker/cli/subcommand.h>

namespace lockstep::worker::cli {
namespace {

constexpr Subcommand kSubcommands[] = {
    {"dryrun", "run a scenario, or replay a recorded job, without a cluster", declare_dryrun},
    {"trace", "trace the first calls of a program as if N ranks ran it", declare_trace},
    {"run", "run a saved program once, on its number of ranks", declare_run},
    {"show", "show a saved program, or what two have different", declare_show},
    {"worker", "be a worker of a controller", declare_worker},
    {"explain", "say what went wrong in a recorded job", declare_explain},
    {"infer", "say which sizes each entry of a recorded job serves", declare_infer},
    {"checkpoint", "list, verify or merge the checkpoints of a job", declare_checkpoint},
    {"doctor", "check that this machine has what lockstep needs", declare_doctor},
    {"coordinator", "watch jobs: run the coordinator on its own", declare_coordinator},
    {"status", "look at running jobs", declare_status},
    {"history", "look at the runs that coordinators have watched", declare_history},
    {"dump", "say what every rank of running jobs is doing", declare_dump},
};

/// Returns CLI11's error as one sentence on one line.
std::string sentence_of(const CLI::ParseError& error, const CLI::App& app) {
  std::string text = error.what();
  for (char& c : text)
    if (c == '\n' || c == '\r') c = ' ';
  while (!text.empty() && (text.back() == ' ' || text.back() == '.')) text.pop_back();
  constexpr std::string_view kNoValue = " missing", kNoKind = "Could not convert: ";
  if (text.ends_with(kNoValue))  // "--ranks: 1 required N:1 to 8 missing"
    text = text.substr(0, text.find(':')) + " needs a value";
  else if (text.starts_with(kNoKind))
    text = text.substr(kNoKind.size()) + " is not understood";
  std::string of;
  for (const CLI::App* sub : app.get_subcommands()) of = " " + sub->get_name();
  return text + "; see lockstep" + of + " --help.";
}

/// Returns the first option on the command line that `app` does not have; empty if `app` has all.
/// If a required option is missing too, only the unknown option is reported.
std::string unknown_option(const CLI::App& app, int argc, char** argv) {
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    const std::string_view word = argv[i];
    const std::string name(word.substr(0, word.find('=')));
    if (word.size() > 1 && word[0] == '-' && app.get_option_no_throw(name) == nullptr) return name;
  }
  return {};
}

/// Declares the options of `lockstep` itself, without a subcommand.
void declare_command(CLI::App& app) {
  app.set_help_flag("-h,--help", "print this help");
  app.set_version_flag("--version", "lockstep " LOCKSTEP_VERSION, "print the version");
  app.add_flag_callback(
      "--completion", [] { throw CLI::Success(); },
      "print the script by which bash completes: source <(lockstep --completion)");
  app.require_subcommand(1);
  describe(app,
           {.usage = {"lockstep SUBCOMMAND [OPTIONS] [ARGUMENTS]", "lockstep SUBCOMMAND --help"},
            .examples = {"lockstep doctor", "lockstep dryrun SCENARIO --ranks 1024"}});
}

int run(int argc, char** argv) {
  CLI::App app{"Every rank of a distributed job compiles the same program, or all fail together.",
               "lockstep"};
  declare_command(app);
  std::vector<std::pair<CLI::App*, std::function<int()>>> runs;
  for (const Subcommand& subcommand : kSubcommands) {
    CLI::App* sub =
        app.add_subcommand(std::string(subcommand.name), std::string(subcommand.summary));
    runs.emplace_back(sub, subcommand.declare(*sub));
  }
  const auto called = [&](const Subcommand& known) { return known.name == argv[1]; };
  if (argc > 1 && argv[1][0] != '-' &&
      std::none_of(std::begin(kSubcommands), std::end(kSubcommands), called))
    return complain("there is no subcommand " + std::string(argv[1]) + "; see lockstep --help.",
                    kUsage);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    const auto chosen = app.get_subcommands();
    return print_result(chosen.empty() ? app.help() : chosen.front()->help("lockstep"), kOk);
  } catch (const CLI::CallForVersion& version) {
    return print_result(std::string(version.what()) + "\n", kOk);
  } catch (const CLI::Success&) {
    return print_result(completion_script(app), kOk);
  } catch (const CLI::RequiredError& error) {
    const auto chosen = app.get_subcommands();
    const std::string unknown = chosen.empty() ? "" : unknown_option(*chosen.front(), argc, argv);
    if (unknown.empty()) return complain(sentence_of(error, app), kUsage);
    return complain("there is no option " + unknown + "; see lockstep " +
                        chosen.front()->get_name() + " --help.",
                    kUsage);
  } catch (const CLI::ParseError& error) {
    return complain(sentence_of(error, app), kUsage);
  }
  for (const auto& [sub, subcommand] : runs)
    if (sub->parsed()) return subcommand();
  return kUsage;
}

}  // namespace
}  // namespace lockstep::worker::cli

int main(int argc, char** argv) {
  try {
    return lockstep::worker::cli::run(argc, argv);
  } catch (const std::exception& error) {
    return lockstep::worker::cli::complain(std::string("internal error: ") + error.what() + ".",
                                           lockstep::worker::cli::kEnvironment);
  }
}
