// Dims to mark in a recorded job, and what that would save.
#pragma once

#include <lockstep/worker/simulator/cluster/drawn_report.h>
#include <lockstep/worker/simulator/cluster/dry_run.h>
#include <lockstep/worker/simulator/input/record_reader.h>

namespace lockstep::worker::simulator {

/// Dims that became symbols during the run, and dims that had a size of 0 or 1 after they had been
/// symbols of 2 or more. Sorted by frame, source and dim. `result` is of this scenario.
[[nodiscard]] std::vector<MarkedDim> dims_to_mark(const Scenario& scenario,
                                                  const DryRunResult& result);
/// The scenario with these marks on dims that are unmarked.
[[nodiscard]] Scenario with_marks(const Scenario& scenario, const std::vector<MarkedDim>& dims);

/// Dims to mark, and the number of compiles in a run with the marks. `result` is of the scenario,
/// or of the replay of the record that the scenario was made from. The number is not known if the
/// inputs alone do not lead to `result`, or for more than 100,000 calls.
[[nodiscard]] MarkAdvice mark_advice(const Scenario& scenario, const DryRunResult& result,
                                     const std::vector<RankRecord>& ranks);

/// Counts the entries that the run compiled: with conditions from a recorded trace, and without.
void count_conditions(const Scenario& scenario, const DryRunResult& result, DrawnFrom& out);

}  // namespace lockstep::worker::simulator
