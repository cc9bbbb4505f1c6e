// What is new in the jobs of a coordinator since it was last asked, as the history store keeps it.
// Pure: no clock, no file, no thread.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include <lockstep/coordinator/service/service.h>
#include <lockstep/coordinator/store/past.h>

namespace lockstep::coordinator {

/// One per coordinator. What it was asked for once and is not new does not come again, so whoever
/// asks keeps what it gets until it is written. One thread.
class HistoryCollector {
 public:
  /// How often it says that a run is still watched, where nothing else is new of it.
  static constexpr std::chrono::seconds kSign{10};

  /// `coordinator`: another one for each start.
  explicit HistoryCollector(std::string coordinator) : coordinator_(std::move(coordinator)) {}
  /// `wall`: the same moment as `now`.
  [[nodiscard]] std::vector<RunNews> collect(const Service& service, Instant now, PastTime wall);

 private:
  struct Watched {
    PastRun run;
    Instant began{0};                             // as the service has it
    std::map<std::uint64_t, std::int64_t> calls;  // told already: serial, by how many ranks
    Instant told{0};                              // when something was last said of it
    std::set<std::string> held;                   // findings and verdict
  };
  [[nodiscard]] RunNews news_of(const Service& service, const WatchedJob& job, Watched& watched,
                                Instant now, PastTime wall) const;
  [[nodiscard]] bool worth_writing(const RunNews& news, const PastRun& before, Instant told,
                                   Instant now) const;
  std::string coordinator_;
  int runs_ = 0;
  std::map<std::string, Watched> watched_;  // by job
};

}  // namespace lockstep::coordinator
