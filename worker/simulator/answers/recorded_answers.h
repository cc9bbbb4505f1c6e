// Questions about a recorded job besides its replay: its times, and comparisons with other ways to
// run it. The answers come from a dry run of the recorded inputs alone. If this dry run does not
// give the recorded calls, times are refused, and comparisons get a note.
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
  std::size_t most_spans = 0;     // as in DryRunOptions
  OnProgress progress{};
};

/// `result` is that of the replay. Adds times to it, and returns the ways compared (none unless
/// requested). Adds limits of the comparison to `notes`. A comparison requires
/// RecordQuestions::counterfactual. Errors: BadInput (the record cannot answer, or has changed).
[[nodiscard]] Result<std::vector<RunVariant>> answer(const std::vector<RankRecord>& ranks,
                                                     const RecordQuestions& questions,
                                                     DryRunResult& result,
                                                     std::vector<std::string>& notes);

}  // namespace lockstep::worker::simulator
