// What went wrong in a recorded job: the verdict first, then the table of ranks, then what to do.
#pragma once

#include <string>
#include <vector>

#include <lockstep/worker/simulator/record_reader.h>

namespace lockstep::worker::simulator {

/// The text of `lockstep explain`: the cause in one line, the ranks with their values, what each
/// rank did last where some did not come through, the next step, and what the job did until then.
[[nodiscard]] std::string explain_record(const std::vector<RankRecord>& ranks);

}  // namespace lockstep::worker::simulator
