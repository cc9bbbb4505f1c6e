// Runs a recorded job on other ranks, which draw their inputs from the recorded ones
// (input/drawn.md), and answers questions about the run.
#pragma once

#include <lockstep/worker/simulator/answers/recorded_answers.h>
#include <lockstep/worker/simulator/answers/replay.h>
#include <lockstep/worker/simulator/input/recorded_inputs.h>

namespace lockstep::worker::simulator {

struct DrawnRun {
  Scenario scenario;
  DryRunResult result;
  std::vector<RunVariant> variants;
  std::vector<std::string> notes;
};

/// Requires a replay of these ranks without a difference. Errors: BadInput (the record cannot
/// answer, or the run would be too large).
[[nodiscard]] Result<DrawnRun> run_drawn(const RecordedInputs& inputs,
                                         const std::vector<RankRecord>& ranks, const Replay& replay,
                                         int world_size, std::uint64_t seed,
                                         const RecordQuestions& questions);

}  // namespace lockstep::worker::simulator
