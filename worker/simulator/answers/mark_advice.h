// Dims to mark in a recorded job, and what that would save.
#pragma once

#include <lockstep/worker/simulator/cluster/drawn_report.h>
#include <lockstep/worker/simulator/cluster/dry_run.h>
#include <lockstep/worker/simulator/input/record_reader.h>

namespace lockstep::worker::simulator {

/// Dims that became symbols on the way, and dims with 0 or 1 after they were symbols of 2 or more;
/// by frame, source and dim. `result` is of this scenario.
[[nodiscard]] std::vector<MarkedDim> dims_to_mark(const Scenario& scenario,
                                                  const DryRunResult& result);
/// Same scenario with these marks, wherever dims are unmarked.
[[nodiscard]] Scenario with_marks(const Scenario& scenario, const std::vector<MarkedDim>& dims);

/// Dims to mark, and the compiles of a run with the marks. `result` is of the scenario, or of the
/// replay of the record from which it is made. Those compiles are not known if the inputs alone do
/// not lead to the result, or for more than 100,000 calls.
[[nodiscard]] MarkAdvice mark_advice(const Scenario& scenario, const DryRunResult& result,
                                     const std::vector<RankRecord>& ranks);

/// Counts versions that the run compiled, by whether a recorded trace gives their conditions.
void count_conditions(const Scenario& scenario, const DryRunResult& result, DrawnFrom& out);

}  // namespace lockstep::worker::simulator
