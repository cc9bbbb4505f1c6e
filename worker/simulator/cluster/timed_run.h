// A whole job on one simulated network and one virtual clock. Every rank makes its calls one after
// another, computes between them, and may have faults. The rounds, the call machines and the
// verdict on a wait are those of a real job.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include <lockstep/worker/simulator/cluster/result.h>
#include <lockstep/worker/simulator/input/scenario.h>

namespace lockstep::worker::simulator {

/// The events of the job, in virtual time from its start. A function of scenario, times and faults
/// only.
struct TimedRun {
  std::vector<CallResult> calls;    // that ended; fewer than the scenario's if the job ended early
  std::vector<Instant> call_ended;  // per call: time of the first rank's outcome
  std::vector<std::optional<Instant>> struck;  // per fault; nullopt: never
  std::optional<Status> verdict;               // error that ended the job early
  RankSet culprits;                            // culprits of the verdict; may be empty
  bool hangs = false;                          // some ranks never continue; no rank can report it
  Instant end{0};                              // end of the job, or of the last active rank
  std::vector<Duration> waited;                // per rank: waits for later arrivals at rounds
  RankSet last;              // ranks that others waited for in most calls, by 1 ms or more
  std::uint64_t events = 0;  // events of the network
};

/// The start of a job waits for this many deadlines (collectives/README.md, "Faults seen").
inline constexpr int kStartDeadlines = 5;

/// `progress` counts calls, and may be empty. `plan` gives the times; its list of faults is
/// ignored.
[[nodiscard]] TimedRun timed_run(
    const Scenario& scenario, const FaultPlan& plan, std::span<const Fault> faults,
    const std::function<void(std::size_t done, std::size_t of)>& progress = {});

/// Estimates the bytes that a run holds at once.
[[nodiscard]] std::uint64_t timed_run_bytes(const Scenario& scenario);

}  // namespace lockstep::worker::simulator
