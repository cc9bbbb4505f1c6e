// lockstep explain DIR
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <lockstep/worker/cli/subcommand.h>
#include <lockstep/worker/report_folder.h>
#include <lockstep/worker/simulator/json_document.h>
#include <lockstep/worker/simulator/verdict.h>

namespace lockstep::worker::cli {
namespace {

/// What the watchdogs left, by rank: "report-00003.txt".
std::vector<std::string> reports_in(const std::string& directory) {
  std::vector<std::string> out;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("report-") && name.ends_with(".txt")) out.push_back(entry.path().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// "job nightly: "; where the reports of several jobs lie it says which one this is.
std::string heading(const std::string& given, const std::string& directory) {
  if (given == directory) return {};
  return "job " + std::filesystem::path(directory).filename().string() + ":\n";
}

int explain(const std::string& given, const std::string& directory) {
  std::string text;
  const std::vector<std::string> reports = reports_in(directory);
  if (!reports.empty()) {
    const auto report = simulator::read_file(reports.front());
    if (!report) return complain(report.error());
    text = heading(given, directory) + *report + (report->ends_with('\n') ? "\n" : "\n\n");
  }
  const auto record = simulator::read_record(directory);
  if (!record && reports.empty()) return complain(record.error());
  if (!record) return print_result(text, kOk);
  const simulator::Explanation explanation = simulator::explain_record(*record);
  return print_result(text + explanation.text, explanation.replay_differs ? kDiverged : kOk);
}

int run(const std::string& given) {
  std::error_code failed;
  if (std::filesystem::exists(given, failed) || given.find('/') != std::string::npos)
    return explain(given, given);
  const auto settings = Settings::from_environment();
  if (!settings) return complain(settings.error());
  const auto found = find_reports(*settings, given);
  return found ? explain(given, *found) : complain(found.error());
}

}  // namespace

std::function<int()> declare_explain(CLI::App& app) {
  auto directory = std::make_shared<std::string>();
  app.add_option("DIR", *directory,
                 "record or report directory, or the name of a job whose report lies in the cache "
                 "directory")
      ->required();
  return [directory] { return run(*directory); };
}

}  // namespace lockstep::worker::cli
