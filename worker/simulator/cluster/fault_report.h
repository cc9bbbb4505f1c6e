// The effect of each fault of a scenario, alone and with the others: what is detected, after how
// long, which ranks are named, and what happens to the job.
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

/// The outcome of one fault. Times are virtual.
struct FaultOutcome {
  std::optional<Instant> struck;   // nullopt: it never struck, because the job was over or did not
                                   // reach it
  std::optional<Status> detected;  // a call's error on all ranks, or the error that ends the job
  Duration after{0};               // time from the stroke to the detection
  RankSet named;                   // ranks named by the report
};

/// The outcome of a job.
struct JobOutcome {
  bool ends = false;                     // the job ends early, with `exit_code`
  std::optional<int> exit_code;          // nullopt if no rank is left to give one
  std::size_t calls = 0;                 // number of calls that ended
  std::int64_t more_compiles = 0;        // compiles in these calls beyond those without faults
  std::int64_t more_errors = 0;          // errors in these calls beyond those without faults
  Duration longer{0};                    // beyond the time without faults; 0 if it ends early
  Duration wait_median{0}, wait_max{0};  // over ranks: additional waits because of faults
  RankSet last;                          // the ranks waited for in most calls
};

struct FaultReport {
  FaultPlan plan;
  Duration without{0};               // time of the job without any faults
  std::optional<Status> ends_alone;  // error of the job even without faults
  struct Alone {
    FaultOutcome fault;
    JobOutcome job;
  };
  std::vector<Alone> alone;            // by fault: its effect as the only fault
  std::vector<FaultOutcome> together;  // by fault: its effect with the other faults
  JobOutcome job;                      // the outcome with all faults
  std::uint64_t events = 0;            // simulated events of all these runs
};

/// Returns the ranks that an error names as at fault: the culprits of a watchdog's report, the
/// ranks that failed in a joint error, those that differ from most in a divergence.
[[nodiscard]] RankSet named_ranks(const Status& error, const RankSet& culprits);

/// Runs the job without faults, with each fault, and with all. Requires scenario.faults.
[[nodiscard]] FaultReport fault_report(
    const Scenario& scenario,
    const std::function<void(std::string_view what, std::size_t done, std::size_t of)>& progress =
        {});

/// Returns the value of the result's key "faults".
[[nodiscard]] std::string fault_json(const FaultReport& report);
/// Returns a row of texts for each fault alone, as JSON, for the report.
[[nodiscard]] std::string fault_rows_json(const FaultReport& report);
/// "ends with exit code 5 after 31 calls, ranks wait 20 s (median 19 s) for rank 7"
[[nodiscard]] std::string job_text(const JobOutcome& job);
/// Returns the table for people.
[[nodiscard]] std::string fault_summary(const FaultReport& report);

}  // namespace lockstep::worker::simulator
