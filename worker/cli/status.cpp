// lockstep status [ADDRESS]
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <lockstep/coordinator/client/ask_status.h>
#include <lockstep/coordinator/server/http_answer.h>
#include <lockstep/worker/agree/process/coordinator_address.h>
#include <lockstep/worker/cli/status_table.h>
#include <lockstep/worker/cli/subcommand.h>

namespace lockstep::worker::cli {
namespace {

/// Time to wait for an answer. With its start and its output, the command takes less than 5 s.
constexpr std::chrono::seconds kPatience{4};

struct StatusOptions {
  AskedCoordinator asked;
  bool json = false, watch = false, page = false;
};

/// Prints the address of the status page, and its password. This user's own processes on the
/// coordinator's machine need no password.
int show_page(const CoordinatorAddress& at) {
  return print_result(
      fmt::format("http://{}/\nuser lockstep, password {} (not asked of this user's "
                  "own processes on that machine)\n",
                  at.endpoint.text(), coordinator::page_password(at.secret)),
      kOk);
}

int show(const CoordinatorAddress& at, const StatusOptions& options) {
  const auto document = coordinator::ask_status(at.endpoint, at.secret, kPatience);
  if (!document) return complain(document.error());
  const std::string text = options.json ? *document : status_table(*document, colourful());
  if (text.empty())
    return complain("what the coordinator answered is no status document of this version.",
                    exit_code(Code::Version));
  return print_result(options.watch && colourful() ? "\033[H\033[J" + text : text, kOk);
}

int run(const StatusOptions& options) {
  if (options.json + options.watch + options.page > 1)
    return complain(
        "--json prints one document, --watch goes on and --page prints an address; take "
        "one of the three.",
        kUsage);
  const auto at = options.asked.find();
  if (!at) return complain(at.error());
  if (options.page) return show_page(*at);
  int code = show(*at, options);
  while (options.watch && code == kOk) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    code = show(*at, options);
  }
  return code;
}

}  // namespace

Result<CoordinatorAddress> AskedCoordinator::find() const {
  const auto settings = Settings::from_environment();
  if (!settings) return settings.error();
  return CoordinatorAddress::find(*settings, address, token_file);
}

void ask_coordinator(CLI::App& app, AskedCoordinator& asked, HelpNotes notes) {
  app.add_option("ADDRESS", asked.address,
                 "HOST:PORT, a port file (with a slash in its path) or the name of a job on this "
                 "host")
      ->type_name("ADDRESS|FILE|JOB")
      ->default_str("LOCKSTEP_COORDINATOR, else the only one that listens on this host");
  app.add_option("--token-file", asked.token_file, "file of mode 0600 with the secret")
      ->type_name("FILE")
      ->default_str("LOCKSTEP_TOKEN, else LOCKSTEP_TOKEN_FILE, else the secret of the port file");
  notes.codes = {{4, "no answer in 4 seconds"},
                 {5, "the answer breaks off"},
                 {6, "another secret or protocol"},
                 {kEnvironment, "no coordinator listens, or stdout cannot be written"}};
  notes.variables.insert(
      {"LOCKSTEP_COORDINATOR", "LOCKSTEP_TOKEN", "LOCKSTEP_TOKEN_FILE", "LOCKSTEP_CACHE_DIR"});
  describe(app, std::move(notes));
}

std::function<int()> declare_status(CLI::App& app) {
  auto options = std::make_shared<StatusOptions>();
  app.add_flag("--json", options->json, "print one JSON document instead of a table");
  app.add_flag("--watch", options->watch, "once a second, until interrupted");
  app.add_flag("--page", options->page,
               "print where a browser finds the status page, and its password");
  ask_coordinator(app, options->asked,
                  {.variables = {"NO_COLOR"},
                   .examples = {"lockstep status",
                                "lockstep status 10.0.0.1:4700 --token-file token --watch"}});
  return [options] { return run(*options); };
}

}  // namespace lockstep::worker::cli
