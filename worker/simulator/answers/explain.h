// What went wrong in a recorded job: the verdict first, then the table of ranks, then what to do.
#pragma once

#include <string>
#include <vector>

#include <lockstep/worker/simulator/input/record_reader.h>

namespace lockstep::worker::simulator {

struct Explanation {
  std::string text;
  std::string verdict, cause;  // the first two of its lines; no cause where nothing failed
  /// The replay came to another action than the one recorded.
  bool replay_differs = false;
};

/// The last thing that its record says of a rank: "call 7 of step: exchange".
[[nodiscard]] std::string last_step(const RankRecord& rank);
/// What `lockstep explain` prints: the cause in one line, the ranks with their values, what each
/// rank did last where some did not come through, the next step, what the job did until then, and
/// whether a replay gives the same.
[[nodiscard]] Explanation explain_record(const std::vector<RankRecord>& ranks);

}  // namespace lockstep::worker::simulator
