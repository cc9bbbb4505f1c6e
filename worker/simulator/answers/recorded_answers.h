// What a recorded job can be asked beside its replay: what it takes in time, and how it would go in
// other ways. Both rest on the recorded inputs alone, so where those do not lead to the recorded
// calls, it is said and no figure is given.
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

/// Adds times to the result of the replay, and returns the ways (none where not asked for). What
/// the ways do not show is said in `notes`. Requires RecordQuestions::counterfactual for a
/// comparison. Errors: BadInput (the record cannot answer, or is no longer what it was).
[[nodiscard]] Result<std::vector<RunVariant>> answer(const std::vector<RankRecord>& ranks,
                                                     const RecordQuestions& questions,
                                                     DryRunResult& result,
                                                     std::vector<std::string>& notes);

}  // namespace lockstep::worker::simulator
