// What each fault of a scenario does, alone and with the others: what is detected, after how long,
// who is named, what becomes of the job.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/base/status.h>
#include <lockstep/worker/simulator/input/fault.h>

namespace lockstep::worker::simulator {

struct Scenario;

/// What became of one fault. Times are virtual.
struct FaultOutcome {
  std::optional<Instant> struck;   // nullopt: never, for the job was over or did not do this
  std::optional<Status> detected;  // what all ranks, or the report that ends the job, say of it
  Duration after{0};               // from the stroke to that
  RankSet named;                   // by it
};

/// What became of a job.
struct JobOutcome {
  bool ends = false;                     // before its end, with `exit_code`
  std::optional<int> exit_code;          // nullopt where nobody is left to give one
  std::size_t calls = 0;                 // that came to an end
  std::int64_t more_compiles = 0;        // in these, than without the faults
  std::int64_t more_errors = 0;          // likewise
  Duration longer{0};                    // than without them; where it does not end
  Duration wait_median{0}, wait_max{0};  // over ranks: for others, more than without them
  RankSet last;                          // whom they waited for in most calls
};

struct FaultReport {
  FaultPlan plan;
  Duration without{0};               // how long the job takes without any of the faults
  std::optional<Status> ends_alone;  // why it does not come to its end even then
  struct Alone {
    FaultOutcome fault;
    JobOutcome job;
  };
  std::vector<Alone> alone;            // by fault: as if it were the only one
  std::vector<FaultOutcome> together;  // by fault: with the others
  JobOutcome job;                      // with all of them
  std::uint64_t events = 0;            // simulated, over all these runs
};

/// Ranks that an error names as those that went wrong: of a report of the watchdog its culprits, of
/// a joint error the ranks that failed, of a divergence those that differ from most.
[[nodiscard]] RankSet named_ranks(const Status& error, const RankSet& culprits);

/// A run of the job without faults, with each of them, and with all. Requires scenario.faults.
[[nodiscard]] FaultReport fault_report(
    const Scenario& scenario,
    const std::function<void(std::string_view what, std::size_t done, std::size_t of)>& progress =
        {});

/// The value of the result's key "faults".
[[nodiscard]] std::string fault_json(const FaultReport& report);
/// A row of texts for each fault by itself, as JSON, for the report.
[[nodiscard]] std::string fault_rows_json(const FaultReport& report);
/// "ends with exit code 5 after 31 calls, ranks wait 20 s (median 19 s) for rank 7"
[[nodiscard]] std::string job_text(const JobOutcome& job);
/// The table for people.
[[nodiscard]] std::string fault_summary(const FaultReport& report);

}  // namespace lockstep::worker::simulator
