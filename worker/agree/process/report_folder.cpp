#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <lockstep/worker/agree/process/report_folder.h>

namespace lockstep::worker {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostJobs = 64;

std::string all_reports(const Settings& settings) { return settings.cache_dir + "/reports"; }

/// The folders of reports, oldest first; a folder is as old as its newest file.
std::vector<std::pair<fs::file_time_type, fs::path>> by_age(const Settings& settings) {
  std::vector<std::pair<fs::file_time_type, fs::path>> out;
  std::error_code failed;
  for (const auto& folder : fs::directory_iterator(all_reports(settings), failed)) {
    fs::file_time_type newest = fs::file_time_type::min();
    for (const auto& file : fs::directory_iterator(folder.path(), failed))
      newest = std::max(newest, file.last_write_time(failed));
    if (newest != fs::file_time_type::min()) out.emplace_back(newest, folder.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

std::string report_folder(const Settings& settings) {
  if (settings.trace) return settings.trace->folder;
  if (!settings.record_dir.empty()) return settings.record_dir;
  return all_reports(settings) + "/" + file_name_of(settings.job_name());
}

std::string report_file(const std::string& folder, int rank) {
  return fmt::format("{}/report-{:05}.txt", folder, rank);
}

void remove_report(const std::string& folder, int rank) {
  std::error_code ignored;
  fs::remove(report_file(folder, rank), ignored);
}

Result<std::string> find_reports(const Settings& settings, const std::string& job) {
  for (const auto& [age, folder] : by_age(settings))
    if (folder.filename() == file_name_of(job)) return folder.string();
  return bad_input(
      fmt::format("{} is no directory, and no job of that name has left a report in {}.", job,
                  all_reports(settings)));
}

void prune_reports(const Settings& settings) {
  const auto all = by_age(settings);
  std::error_code ignored;
  for (std::size_t i = 0; i + kMostJobs < all.size(); ++i) fs::remove_all(all[i].second, ignored);
}

}  // namespace lockstep::worker
