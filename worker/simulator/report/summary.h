// Table of a dry run for people.
#pragma once

#include <set>
#include <string>
#include <vector>

#include <lockstep/worker/simulator/cluster/result.h>

namespace lockstep::worker::simulator {

/// Consecutive calls that can share a line: reuses of one frame, or equal outcomes.
struct CallRun {
  std::size_t first = 0, last = 0;
  std::set<int> entries;  // entries that ran
  /// Text such as "3" or "3-7".
  [[nodiscard]] std::string calls() const;
};
[[nodiscard]] std::vector<CallRun> call_runs(const DryRunResult& result);

/// The table for people: outcomes (equal calls in a row as one line), decisions, errors, totals.
[[nodiscard]] std::string result_summary(const DryRunResult& result, bool colour);

}  // namespace lockstep::worker::simulator
