// What is wrong with a job: pure functions of what its ranks said and of the time. A rank that is
// busy and says so (a lease, as a long compile renews it) is never taken for stuck.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <lockstep/coordinator/service/operations.h>

namespace lockstep::coordinator {

/// When a finding is warned of, and when it is time to act on it.
struct Rules {
  /// A rank that reports once a second and has not been heard for so long is silent.
  Duration silent_warn = std::chrono::seconds(3), silent_act = std::chrono::seconds(60);
  /// A closed connection is warned of at once; the rank may still come again.
  Duration closed_act = std::chrono::seconds(10);
  /// Others wait for a rank, or all have come, and nothing moves.
  Duration stuck_warn = std::chrono::seconds(5), stuck_act = std::chrono::seconds(60);
  /// Ranks that have never come, after the first rank of the job came.
  Duration absent_warn = std::chrono::seconds(10);
  /// A rank lags where the median rank of the job waits for at least one `skew_median`-th of its
  /// time and this one for at most one `skew_ratio`-th of that, over so many looks.
  std::uint32_t skew_median = 5, skew_ratio = 4, skew_looks = 100;

  /// Those of one job, whose watchdogs wait for `deadline`: on one host they see more than reports
  /// show and are left to it, so the coordinator acts after them; between hosts it sees more than
  /// they do, and acts before.
  [[nodiscard]] Rules within(Duration deadline, bool several_hosts) const;
};

struct Finding {
  enum class Kind : std::uint8_t {
    Lost,    // its connection is closed and it had not finished
    Silent,  // no word from it
    Stuck,   // others wait for it in an operation and it shows neither progress nor a lease
    Ring,    // ranks wait for each other
    Hung,    // all have come to an operation and it does not end
    Absent,  // it has never come
    Lags,    // others wait for it all the time
  };
  Kind kind = Kind::Lost;
  bool act = false;  // false: a warning
  RankSet ranks;
  Instant since{0};
  std::string message;  // one sentence, all ranks as ranges and by host
  bool operator==(const Finding&) const = default;
};
[[nodiscard]] std::string_view kind_name(Finding::Kind kind);

/// Everything that is wrong, what is worst first. Findings to act on and warnings of one kind stand
/// apart. `operations` are those of awaited_operations(). `began`: when the first rank came.
[[nodiscard]] std::vector<Finding> diagnose(const Membership& membership, const Progress& progress,
                                            const std::vector<Operation>& operations,
                                            const Rules& rules, Instant began, Instant now);

}  // namespace lockstep::coordinator
