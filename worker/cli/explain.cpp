// lockstep explain DIR
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <lockstep/worker/cli/subcommand.h>
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

int run(const std::string& directory) {
  std::string text;
  const std::vector<std::string> reports = reports_in(directory);
  if (!reports.empty()) {
    const auto report = simulator::read_file(reports.front());
    if (!report) return complain(report.error());
    text = *report + (report->ends_with('\n') ? "\n" : "\n\n");
  }
  const auto record = simulator::read_record(directory);
  if (!record && reports.empty()) return complain(record.error());
  if (!record) return print_result(text, kOk);
  const simulator::Explanation explanation = simulator::explain_record(*record);
  return print_result(text + explanation.text, explanation.replay_differs ? kDiverged : kOk);
}

}  // namespace

std::function<int()> declare_explain(CLI::App& app) {
  auto directory = std::make_shared<std::string>();
  app.add_option("DIR", *directory, "record or report directory")->required();
  return [directory] { return run(*directory); };
}

}  // namespace lockstep::worker::cli
