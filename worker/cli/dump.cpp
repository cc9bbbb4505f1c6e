// lockstep dump [ADDRESS]
#include <chrono>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/coordinator/client/ask_status.h>
#include <lockstep/worker/agree/process/coordinator_address.h>
#include <lockstep/worker/cli/subcommand.h>

namespace lockstep::worker::cli {
namespace {

using nlohmann::json;

/// Time to wait for an answer. With its start and its output, the command takes less than 5 s.
constexpr std::chrono::seconds kPatience{4};

struct DumpOptions {
  AskedCoordinator asked;
  bool json = false;
};

std::string operation_of(const json& rank) {
  const std::string operation = rank.value("operation", "");
  if (operation.empty()) return "-";
  std::string out = fmt::format("{} {}", operation, rank.value("ordinal", std::uint64_t{0}));
  const std::string group = rank.value("group", "0"), name = rank.value("group_name", "");
  if (group != "0") out += " of " + (name.empty() ? group : name);
  return out;
}

/// Returns the line of a rank: "3  n0  4711  waiting  vote 12  for 5.2 s  call 6 of train_step".
std::string line_of(const json& rank) {
  const std::string link = rank.value("link", "");
  const bool waiting = rank.value("waiting", false);
  std::string out =
      fmt::format("{:>6}  {:<16} {:>8}  {:<10} {:<24}", rank.value("rank", 0),
                  rank.value("host", "-"), rank.value("pid", 0),
                  link != "connected" ? link : (waiting ? "waiting" : rank.value("phase", "-")),
                  operation_of(rank));
  if (rank.contains("progress_seconds_ago"))
    out += fmt::format(" {:>9.1f}  {}", rank.value("progress_seconds_ago", 0.0),
                       rank.value("event", "").empty() ? "-" : rank.value("event", ""));
  if (const double lease = rank.value("lease_seconds_left", 0.0); lease > 0)
    out += fmt::format(" (busy, lease for {:.0f} s)", lease);
  return out + "\n";
}

std::string lines_of(const json& dump) {
  std::string out;
  for (const json& job : dump.at("jobs")) {
    out += fmt::format(
        "job {}: {} ranks\n  rank  host                  pid  phase      operation                "
        " idle for s  last event\n",
        job.value("job", ""), job.value("size", 0));
    for (const json& rank : job.at("ranks")) out += line_of(rank);
  }
  return out.empty() ? "no job has come yet\n" : out;
}

int run(const DumpOptions& options) {
  const auto at = options.asked.find();
  if (!at) return complain(at.error());
  const auto document = coordinator::ask_status(at->endpoint, at->secret, kPatience, {true});
  if (!document) return complain(document.error());
  if (options.json) return print_result(*document, kOk);
  const json dump = json::parse(*document, nullptr, false);
  if (dump.is_discarded() || dump.value("format", "") != "lockstep.dump/1")
    return complain("what the coordinator answered is no dump of this version.",
                    exit_code(Code::Version));
  return print_result(lines_of(dump), kOk);
}

}  // namespace

std::function<int()> declare_dump(CLI::App& app) {
  auto options = std::make_shared<DumpOptions>();
  app.add_flag("--json", options->json, "print one JSON document instead of lines");
  ask_coordinator(app, options->asked,
                  {.examples = {"lockstep dump", "lockstep dump ./coordinator.port --json"}});
  return [options] { return run(*options); };
}

}  // namespace lockstep::worker::cli
