// Events and counts of the jobs of a coordinator, from the differences between two looks at the
// service. No sockets and no clock.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/coordinator/documents/event_line.h>
#include <lockstep/coordinator/service/service.h>

namespace lockstep::coordinator {

/// Counts of reported calls, from the job's first run on: for metrics.
struct CallTally {
  /// Upper bounds of the buckets, in seconds; the last bucket has none.
  static constexpr std::array<double, 10> kBounds{0.01, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000};
  struct Histogram {
    std::array<std::uint64_t, kBounds.size() + 1> buckets{};  // each sample counts in one bucket
    double sum = 0;
  };
  /// Seconds of the lowest rank's trace and of the slowest rank's compile, by outcome.
  std::map<std::string_view, Histogram> compile;
  struct Recompile {
    std::string_view reason;
    bool forced = false;  // an entry fitted on some ranks, but not on all
    auto operator<=>(const Recompile&) const = default;
  };
  std::map<Recompile, std::uint64_t> recompiles;
  std::map<std::string_view, std::uint64_t> divergences;  // by field_kind()
};

/// Single-threaded.
class EventLog {
 public:
  static constexpr std::size_t kMostLines = 4096, kMostBytes = 4 * 1024 * 1024;

  /// Returns the lines of new events. To be called about once a second, with a `now` that does not
  /// go back. A call of a program becomes an event once all ranks have reported it, or two seconds
  /// after the first report.
  std::vector<std::string> look(const Service& service, Instant now, WallTime wall);

  /// The latest lines, oldest first.
  [[nodiscard]] const std::deque<std::string>& lines() const { return lines_; }
  /// Tallies by job id, for the jobs that the service had at the last look.
  [[nodiscard]] const std::map<std::string, CallTally>& tallies() const { return tallies_; }

 private:
  struct Known {
    int run = 0;
    RankSet live, finished, came;
    std::map<std::string, EventLine> findings;  // findings that hold, by kind, severity and ranks
    std::uint64_t next_call = 0;
    bool ended = false;  // the event of the verdict was made
  };
  void look_at(const std::string& id, const WatchedJob& job, const Service& service);
  void members(const WatchedJob& job, Known& known);
  void findings(const WatchedJob& job, const Service& service, Known& known);
  void calls(const WatchedJob& job, Known& known);
  void call(const WatchedJob& job, const ReportedCall& told);
  [[nodiscard]] EventLine event(std::string_view level, std::string_view name) const;
  void add(const EventLine& event);

  std::map<std::string, Known> jobs_;
  std::map<std::string, CallTally> tallies_;
  std::deque<std::string> lines_;
  std::size_t bytes_ = 0;
  // For the look in progress:
  std::vector<std::string> new_lines_;
  std::string job_;
  int run_ = 1;
  Instant now_{0};
  WallTime wall_{};
};

/// "first_call", "size", "value", "bound", "guard", "inputs", "mark", "elsewhere" (an entry fitted
/// here) or "other": a bounded set, for labels of metrics. `reason` is CallEvent::reason; if it
/// lists several entries, the first counts.
[[nodiscard]] std::string_view reason_class(std::string_view reason);
/// The field in which ranks differ, by error code: "graph", "dtype", …; empty if the code is not a
/// disagreement.
[[nodiscard]] std::string_view field_kind(Code code);

}  // namespace lockstep::coordinator
