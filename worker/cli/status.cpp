// lockstep status [ADDRESS]
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <lockstep/coordinator/client/ask_status.h>
#include <lockstep/coordinator/server/http_answer.h>
#include <lockstep/worker/cli/status_table.h>
#include <lockstep/worker/cli/subcommand.h>
#include <lockstep/worker/process/coordinator_address.h>

namespace lockstep::worker::cli {
namespace {

/// Of the five seconds that an answer may take, some for starting and printing.
constexpr std::chrono::seconds kPatience{4};

struct StatusOptions {
  std::string address, token_file;
  bool json = false, watch = false, page = false;
};

/// Where a browser finds it, and what it asks those who are not this user on this machine.
int show_page(const CoordinatorAddress& at) {
  return print_result(
      fmt::format("http://{}/\nuser lockstep, password {} (not asked of this user's "
                  "own processes on that machine)\n",
                  at.endpoint.text(), coordinator::page_password(at.secret)),
      kOk);
}

int show(const CoordinatorAddress& at, const StatusOptions& wishes) {
  const auto document = coordinator::ask_status(at.endpoint, at.secret, kPatience);
  if (!document) return complain(document.error());
  const std::string text = wishes.json ? *document : status_table(*document, colourful());
  if (text.empty())
    return complain("what the coordinator answered is no status document of this version.",
                    exit_code(Code::Version));
  return print_result(wishes.watch && colourful() ? "\033[H\033[J" + text : text, kOk);
}

int run(const StatusOptions& wishes) {
  if (wishes.json + wishes.watch + wishes.page > 1)
    return complain(
        "--json prints one document, --watch goes on and --page prints an address; take "
        "one of the three.",
        kUsage);
  const auto settings = Settings::from_environment();
  if (!settings) return complain(settings.error());
  const auto at = CoordinatorAddress::find(*settings, wishes.address, wishes.token_file);
  if (!at) return complain(at.error());
  if (wishes.page) return show_page(*at);
  int code = show(*at, wishes);
  while (wishes.watch && code == kOk) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    code = show(*at, wishes);
  }
  return code;
}

}  // namespace

std::function<int()> declare_status(CLI::App& app) {
  auto wishes = std::make_shared<StatusOptions>();
  app.add_option("ADDRESS", wishes->address,
                 "its address, or its port file (LOCKSTEP_COORDINATOR, else coordinator.port in "
                 "the cache directory)");
  app.add_option("--token-file", wishes->token_file,
                 "file of mode 0600 with the secret (LOCKSTEP_TOKEN, else that of the port file)");
  app.add_flag("--json", wishes->json, "print one JSON document instead of a table");
  app.add_flag("--watch", wishes->watch, "once a second, until interrupted");
  app.add_flag("--page", wishes->page,
               "print where a browser finds the status page, and its password");
  return [wishes] { return run(*wishes); };
}

}  // namespace lockstep::worker::cli
