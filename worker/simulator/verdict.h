// What went wrong in a recorded job: the verdict first, then the table of ranks, then what to do.
#pragma once

#include <string>
#include <vector>

#include <lockstep/worker/simulator/record_reader.h>

namespace lockstep::worker::simulator {

struct Explanation {
  std::string text;
  /// The replay came to another action than the one recorded.
  bool replay_differs = false;
};

/// What `lockstep explain` prints: the cause in one line, the ranks with their values, what each
/// rank did last where some did not come through, the next step, what the job did until then, and
/// whether a replay gives the same.
[[nodiscard]] Explanation explain_record(const std::vector<RankRecord>& ranks);

}  // namespace lockstep::worker::simulator
