// Collects the news of a coordinator's jobs since the last collect(), in the form of the history.
// Pure: no clock, no file, no thread.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include <lockstep/coordinator/service/service.h>
#include <lockstep/coordinator/store/history_run.h>

namespace lockstep::coordinator {

/// A coordinator has one. It returns each piece of news once, so the caller must keep the news
/// until it is written. Single-threaded.
class HistoryCollector {
 public:
  /// Period at which it reports that a run is still watched, if there is no other news.
  static constexpr std::chrono::seconds kSign{10};

  /// `coordinator` is a random id for each start of the coordinator.
  explicit HistoryCollector(std::string coordinator) : coordinator_(std::move(coordinator)) {}
  /// `wall` is the same moment as `now`.
  [[nodiscard]] std::vector<RunNews> collect(const Service& service, Instant now, HistoryTime wall);

 private:
  struct Watched {
    HistoryRun run;
    Instant began{0};                             // WatchedJob::began
    std::map<std::uint64_t, std::int64_t> calls;  // calls already returned: serial, number of ranks
    Instant told{0};                              // when news of the run was last returned
    std::set<std::string> held;                   // findings and verdict already returned
  };
  [[nodiscard]] RunNews news_of(const Service& service, const WatchedJob& job, Watched& watched,
                                Instant now, HistoryTime wall) const;
  [[nodiscard]] bool worth_writing(const RunNews& news, const HistoryRun& before, Instant told,
                                   Instant now) const;
  std::string coordinator_;
  int runs_ = 0;
  std::map<std::string, Watched> watched_;  // by job
};

}  // namespace lockstep::coordinator
