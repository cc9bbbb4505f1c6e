// Questions to a recorded job beside its replay: its times, and its course in other ways. Both
// answers rest on the recorded inputs alone. If those do not lead to the recorded calls, times are
// refused, and a note is added to the ways.
#pragma once

#include <string>
#include <vector>

#include <lockstep/worker/simulator/cluster/dry_run.h>
#include <lockstep/worker/simulator/input/record_reader.h>

namespace lockstep::worker::simulator {

struct RecordQuestions {
  bool counterfactual = true;
  bool compare = false;
  std::optional<CostModel> cost;  // nullopt: nothing is timed
  std::size_t most_spans = 0;     // as DryRunOptions
  OnProgress progress{};
};

/// Adds times to the result of the replay, and returns the ways (none unless asked for). Limits of
/// the ways are added to `notes`. Requires RecordQuestions::counterfactual for a comparison.
/// Errors: BadInput (the record cannot answer, or has changed).
[[nodiscard]] Result<std::vector<RunVariant>> answer(const std::vector<RankRecord>& ranks,
                                                     const RecordQuestions& questions,
                                                     DryRunResult& result,
                                                     std::vector<std::string>& notes);

}  // namespace lockstep::worker::simulator
