// The summary at the end of a job: per frame the number of compiles and calls, the times, and the
// fingerprint of the program that all ranks ran.
#pragma once

#include <string>
#include <vector>

#include <lockstep/worker/job/job_context.h>

namespace lockstep::worker {

/// Seconds of one rank, by activity. `seconds` is in the order of kNames.
struct JobTimes {
  static constexpr int kCount = 10;
  static const char* const kNames[kCount];
  double seconds[kCount] = {};
  [[nodiscard]] static JobTimes of(const JobContext& job, const CallTimes& calls, Duration total);
};

/// Fingerprint of the graphs that this rank ran in frames that all ranks share, frame by frame in
/// order. Equal on ranks that ran the same graphs.
[[nodiscard]] shapes::Fingerprint program_fingerprint(const std::vector<FrameCounts>& frames);

/// The summary's lines about frames, each with the ranks that have it.
struct FrameLines {
  std::vector<RankValue> rows;    // rows of the table
  std::vector<RankValue> advice;  // "step: the list xs has come with …"
};

/// This rank's lines. Only rank 0 has lines of frames that ranks decide alone.
[[nodiscard]] FrameLines frame_lines(Rank self, const std::vector<FrameCounts>& frames);
/// The lines of all ranks. Collective. Errors: the communicator's.
[[nodiscard]] Result<FrameLines> gather(collectives::Communicator& all, const FrameLines& mine);

/// The summary as text. `least` and `most`: the least and greatest times over the ranks; `frames`:
/// this rank's counts.
[[nodiscard]] std::string summary_text(int ranks, const FrameLines& lines,
                                       const std::vector<FrameCounts>& frames,
                                       const CallTimes& calls, const JobTimes& least,
                                       const JobTimes& most, const BuildCost& built);

}  // namespace lockstep::worker
