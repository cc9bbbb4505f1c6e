// A whole job on one simulated network and one virtual clock: every rank makes its calls one after
// the other, computes between them, and may go wrong. The rounds, the call machines and the verdict
// on a wait are those of a real job.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include <lockstep/worker/simulator/cluster/result.h>
#include <lockstep/worker/simulator/input/scenario.h>

namespace lockstep::worker::simulator {

/// What happened, in virtual time from the start of the job. A function of scenario, times and
/// faults alone.
struct TimedRun {
  std::vector<CallResult> calls;    // that came to an end; fewer than the scenario's if the job did
  std::vector<Instant> call_ended;  // per call: when the first rank had its outcome
  std::vector<std::optional<Instant>> struck;  // per fault: when; nullopt: never
  std::optional<Status> verdict;               // what ended the job before its end
  RankSet culprits;                            // whom that is about; empty: nobody in particular
  bool hangs = false;                          // some ranks never go on and nobody is left to tell
  Instant end{0};                              // of the job, or of the last rank that moved
  std::vector<Duration> waited;                // per rank: for ranks that came after it to a round
  RankSet last;  // the rank that others waited for in most calls, by a millisecond or more
  std::uint64_t events = 0;  // of the network
};

/// The start of a job waits for so many deadlines (collectives/README.md, "Faults seen").
inline constexpr int kStartDeadlines = 5;

/// `progress` is told of calls, and may be empty. `plan` gives the times; its list is not looked
/// at.
[[nodiscard]] TimedRun timed_run(
    const Scenario& scenario, const FaultPlan& plan, std::span<const Fault> faults,
    const std::function<void(std::size_t done, std::size_t of)>& progress = {});

/// An estimate of what a run holds at once.
[[nodiscard]] std::uint64_t timed_run_bytes(const Scenario& scenario);

}  // namespace lockstep::worker::simulator
