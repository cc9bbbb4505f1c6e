// The folders of the watchdog's reports, which jobs that fail write and `lockstep explain` reads.
#pragma once

#include <string>

#include <lockstep/worker/agree/process/settings.h>

namespace lockstep::worker {

/// The folder of the trace or of the record, if any; else the job's folder in the cache directory.
[[nodiscard]] std::string report_folder(const Settings& settings);
/// Removes the report of this rank's previous run.
void remove_report(const std::string& folder, int rank);
/// "FOLDER/report-00003.txt"
[[nodiscard]] std::string report_file(const std::string& folder, int rank);

/// The folder in the cache directory with the reports of `job`. Errors: BadInput (there is none).
[[nodiscard]] Result<std::string> find_reports(const Settings& settings, const std::string& job);
/// Removes reports from the cache directory, except those of the newest 64 jobs.
void prune_reports(const Settings& settings);

}  // namespace lockstep::worker
