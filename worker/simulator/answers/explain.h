// What went wrong in a recorded job: the verdict first, then the table of ranks, then what to do.
#pragma once

#include <string>
#include <vector>

#include <lockstep/worker/simulator/input/record_reader.h>

namespace lockstep::worker::simulator {

struct Explanation {
  std::string text;
  std::string verdict, cause;  // first two lines of `text`; no cause if nothing failed
  /// True if a replay of the record has other actions than the record.
  bool replay_differs = false;
};

/// Last step in a rank's record: "call 7 of step: in exchange".
[[nodiscard]] std::string last_step(const RankRecord& rank);
/// Output of `lockstep explain`: the cause in one line, the ranks with their values, the last step
/// of each rank if some did not finish, the next step, the job's history, and whether a replay has
/// the same actions.
[[nodiscard]] Explanation explain_record(const std::vector<RankRecord>& ranks);

}  // namespace lockstep::worker::simulator
