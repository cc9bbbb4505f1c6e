// lockstep explain DIR
#include <algorithm>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <lockstep/coordinator/documents/page.h>
#include <lockstep/worker/agree/process/report_folder.h>
#include <lockstep/worker/cli/subcommand.h>
#include <lockstep/worker/simulator/answers/explain.h>
#include <lockstep/worker/simulator/answers/record_status.h>
#include <lockstep/worker/simulator/draw/regular_file.h>

namespace lockstep::worker::cli {
namespace {

/// Returns the watchdogs' reports in a directory, in the order of ranks ("report-00003.txt").
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

struct ExplainOptions {
  std::string directory, report;
};

std::string time_of_day() {
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(std::time(nullptr)));
}

Result<void> write_page(const ExplainOptions& options,
                        const std::vector<simulator::RankRecord>& record,
                        const simulator::Explanation& explanation, const std::string& watchdog) {
  const auto status = simulator::record_status(record, explanation, options.directory, watchdog,
                                               LOCKSTEP_VERSION, time_of_day());
  if (!status) return status.error();
  return write_whole("The report", options.report, coordinator::page_with(*status, false));
}

/// Returns "job nightly:" if `given` names a job instead of the directory of its reports; else
/// nothing.
std::string heading(const std::string& given, const std::string& directory) {
  if (given == directory) return {};
  return "job " + std::filesystem::path(directory).filename().string() + ":\n";
}

int explain(const ExplainOptions& options, const std::string& directory) {
  if (!options.report.empty() && part_of_record(options.report, directory))
    return complain(
        "--report " + options.report + " is a part of the record; give it another name.", kUsage);
  std::string text;
  const std::vector<std::string> reports = reports_in(directory);
  if (!reports.empty()) {
    const auto report = simulator::read_file(reports.front());
    if (!report) return complain(report.error());
    text =
        heading(options.directory, directory) + *report + (report->ends_with('\n') ? "\n" : "\n\n");
  }
  const auto record = simulator::read_record(directory);
  if (!record && (reports.empty() || !options.report.empty())) return complain(record.error());
  if (!record) return print_result(text, kOk);
  const simulator::Explanation explanation = simulator::explain_record(*record);
  if (!options.report.empty())
    if (const auto written = write_page(options, *record, explanation, text); !written)
      return complain(written.error());
  return print_result(text + explanation.text, explanation.replay_differs ? kDiverged : kOk);
}

int run(const ExplainOptions& options) {
  const std::string& given = options.directory;
  std::error_code failed;
  if (std::filesystem::exists(given, failed) || given.find('/') != std::string::npos)
    return explain(options, given);
  const auto settings = Settings::from_environment();
  if (!settings) return complain(settings.error());
  const auto found = find_reports(*settings, given);
  return found ? explain(options, *found) : complain(found.error());
}

}  // namespace

std::function<int()> declare_explain(CLI::App& app) {
  auto options = std::make_shared<ExplainOptions>();
  app.add_option("DIR", options->directory,
                 "record or report directory, or the name of a job whose report lies in the cache "
                 "directory")
      ->type_name("DIR|JOB")
      ->required();
  app.add_option("--report", options->report,
                 "HTML file to write, too: the status page of the recorded job")
      ->type_name("FILE.html");
  describe(app, {.text = "The verdict comes first: cause, ranks, what differs, both values, next "
                         "step.",
                 .codes = {{kDiverged, "an action of the replay is not the recorded one"}},
                 .variables = {"LOCKSTEP_CACHE_DIR"},
                 .examples = {"lockstep explain DIR", "lockstep explain DIR --report page.html"}});
  return [options] { return run(*options); };
}

}  // namespace lockstep::worker::cli
