// The history of jobs on disk: their runs, what was compiled in each and why, and how each run
// ended. Any number of coordinators may write while `lockstep history` reads. No decision of ranks
// depends on it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/coordinator/store/database.h>
#include <lockstep/coordinator/store/history_run.h>

namespace lockstep::coordinator {

/// One thread per object.
class HistoryStore {
 public:
  static constexpr std::string_view kFile = "history.db";
  /// Limits of the numbers of runs of all jobs, and of calls and notes of one run. The latest are
  /// kept.
  static constexpr int kMostRuns = 1000;
  static constexpr std::int64_t kMostCalls = 10'000, kMostNotes = 1'000;

  struct Options {
    /// A private directory, made if it is missing (its parent must exist).
    std::string directory;
    /// Receives the error when a damaged database is renamed.
    std::function<void(const Status&)> report;
    Database::Access access = Database::Access::Write;
  };
  /// Errors: those of Database::open().
  [[nodiscard]] static Result<std::unique_ptr<HistoryStore>> open(Options options);

  /// Writes all of the news or nothing. If the same news is written twice, its runs and calls are
  /// stored once, but its notes twice. Errors: those of Database::write().
  [[nodiscard]] Result<void> write(const std::vector<RunNews>& news);

  /// The runs of a job, or of all jobs if `job` is empty; the latest first. Errors: those of
  /// Database::read().
  [[nodiscard]] Result<std::vector<HistoryRun>> runs(const std::string& job);
  /// The calls of a run, in the order in which they were reported. Errors: those of
  /// Database::read().
  [[nodiscard]] Result<std::vector<HistoryCall>> calls(const HistoryRun& run);
  [[nodiscard]] Result<std::vector<HistoryNote>> notes(const HistoryRun& run);

 private:
  explicit HistoryStore(std::unique_ptr<Database> database) : database_(std::move(database)) {}
  std::unique_ptr<Database> database_;
};

}  // namespace lockstep::coordinator
