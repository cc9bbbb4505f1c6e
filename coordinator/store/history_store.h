// The history of jobs on disk: which runs there were, what was compiled in them and why, and how
// they ended. Written by coordinators, any number of them at a time; read by `lockstep history`
// while they write. Nothing that ranks decide depends on it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/coordinator/store/database.h>
#include <lockstep/coordinator/store/past.h>

namespace lockstep::coordinator {

/// One thread per object.
class HistoryStore {
 public:
  static constexpr std::string_view kFile = "history.db";
  /// Runs kept, of all jobs: those that began last. Of one run: calls and notes, the last ones.
  static constexpr int kMostRuns = 1000;
  static constexpr std::int64_t kMostCalls = 10'000, kMostNotes = 1'000;

  struct Options {
    /// A private directory, made if it is missing (its parent must exist).
    std::string directory;
    /// Told of a database that was set aside.
    std::function<void(const Status&)> report;
    Database::Access access = Database::Access::Write;
  };
  /// Errors: as Database::open().
  [[nodiscard]] static Result<std::unique_ptr<HistoryStore>> open(Options options);

  /// All of it or nothing; twice is as once, but for notes. Errors: as Database::write().
  [[nodiscard]] Result<void> write(const std::vector<RunNews>& news);

  /// What is kept, at one moment: runs that began last first; `job` empty: of all jobs.
  /// Errors: as Database::read().
  [[nodiscard]] Result<std::vector<PastRun>> runs(const std::string& job);
  /// In the order in which they were told. Errors: as Database::read().
  [[nodiscard]] Result<std::vector<PastCall>> calls(const PastRun& run);
  [[nodiscard]] Result<std::vector<PastNote>> notes(const PastRun& run);

 private:
  explicit HistoryStore(std::unique_ptr<Database> database) : database_(std::move(database)) {}
  std::unique_ptr<Database> database_;
};

}  // namespace lockstep::coordinator
