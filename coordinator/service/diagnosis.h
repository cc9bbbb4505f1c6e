// Finds what is wrong with a job, by pure functions of its ranks' reports and of the time. A busy
// rank with a lease (a long compile renews one) never counts as stuck.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <lockstep/coordinator/service/operations.h>

namespace lockstep::coordinator {

/// Times after which a finding is a warning, and after which the coordinator acts on it.
struct Rules {
  /// For a connected rank that sends nothing.
  Duration silent_warn = std::chrono::seconds(3), silent_act = std::chrono::seconds(60);
  /// For a closed connection, which is a warning at once. Until then the rank may reconnect.
  Duration closed_act = std::chrono::seconds(10);
  /// For a rank without progress for which others wait, and for an operation without progress in
  /// which all ranks wait.
  Duration stuck_warn = std::chrono::seconds(5), stuck_act = std::chrono::seconds(60);
  /// For ranks that have never joined; counted from when the first rank joined.
  Duration absent_warn = std::chrono::seconds(10);
  /// A rank lags if, over at least `skew_looks` looks, the median rank of the job waits for
  /// 1/skew_median of the time or more, and the lagging rank for 1/skew_ratio of the median or
  /// less.
  std::uint32_t skew_median = 5, skew_ratio = 4, skew_looks = 100;

  /// The rules of one job, whose watchdogs wait for `deadline`. On one host the watchdogs see more
  /// than reports show, so the coordinator acts later than the watchdogs. Between hosts the
  /// coordinator sees more, so it acts earlier.
  [[nodiscard]] Rules within(Duration deadline, bool several_hosts) const;
};

struct Finding {
  enum class Kind : std::uint8_t {
    Lost,    // its connection was closed before it finished
    Silent,  // no report from it
    Stuck,   // others wait for it in an operation, and it has neither progress nor a lease
    Ring,    // ranks wait for each other
    Hung,    // all ranks are in an operation that does not end
    Absent,  // it has never joined
    Lags,    // others wait for it all the time
  };
  Kind kind = Kind::Lost;
  bool act = false;  // false: a warning
  RankSet ranks;
  Instant since{0};
  std::string message;  // one sentence, with ranks as ranges and by host
  bool operator==(const Finding&) const = default;
};
[[nodiscard]] std::string_view kind_name(Finding::Kind kind);

/// All findings, the worst first. Warnings and findings to act on are separate findings, even if
/// they are of one kind. `operations` are from awaited_operations(). `began` is when the first rank
/// joined.
[[nodiscard]] std::vector<Finding> diagnose(const Membership& membership, const Progress& progress,
                                            const std::vector<Operation>& operations,
                                            const Rules& rules, Instant began, Instant now);

}  // namespace lockstep::coordinator
