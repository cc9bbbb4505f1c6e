// What to mark in a recorded job, with what that would save.
#pragma once

#include <lockstep/worker/simulator/cluster/drawn_report.h>
#include <lockstep/worker/simulator/cluster/dry_run.h>
#include <lockstep/worker/simulator/input/record_reader.h>

namespace lockstep::worker::simulator {

/// Dims that became symbols on the way, and dims to which 0 or 1 came once they were symbols of 2
/// or more; by frame, source and dim. `result`: of this scenario.
[[nodiscard]] std::vector<MarkedDim> dims_to_mark(const Scenario& scenario,
                                                  const DryRunResult& result);
/// The same scenario with these marks, wherever dims are unmarked.
[[nodiscard]] Scenario with_marks(const Scenario& scenario, const std::vector<MarkedDim>& dims);

/// Both, and a run with the marks. `result` is of the scenario, or of the replay of the record that
/// the scenario is made of: where its inputs alone do not lead to it, what marks save is not known.
[[nodiscard]] MarkAdvice mark_advice(const Scenario& scenario, const DryRunResult& result,
                                     const std::vector<RankRecord>& ranks);

/// Of the versions that the run compiled, those whose conditions a recorded trace tells.
void count_conditions(const Scenario& scenario, const DryRunResult& result, DrawnFrom& out);

}  // namespace lockstep::worker::simulator
