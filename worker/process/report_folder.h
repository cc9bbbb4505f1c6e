// Where a job that ends badly leaves its watchdog's report, and where it is found again.
#pragma once

#include <string>

#include <lockstep/worker/process/settings.h>

namespace lockstep::worker {

/// That of the trace or the record, where there is one; else one of the job's own in the cache directory.
[[nodiscard]] std::string report_folder(const Settings& settings);
/// The report of this rank's last run in such a folder is not that of the next one.
void remove_report(const std::string& folder, int rank);
/// "FOLDER/report-00003.txt"
[[nodiscard]] std::string report_file(const std::string& folder, int rank);

/// The folder of the cache directory with the reports of that job. Errors: BadInput (there is
/// none).
[[nodiscard]] Result<std::string> find_reports(const Settings& settings, const std::string& job);
/// Of those in the cache directory the newest stay, 64 jobs.
void prune_reports(const Settings& settings);

}  // namespace lockstep::worker
