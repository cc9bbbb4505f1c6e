// What a job tells at its end: per frame how often it compiled and what ran, where the time went,
// and the one program that all ranks ran.
#pragma once

#include <string>
#include <vector>

#include <lockstep/worker/job_context.h>

namespace lockstep::worker {

/// Seconds of one rank, by what it did. The order of `seconds` is that of kTimes.
struct JobTimes {
  static constexpr int kCount = 10;
  static const char* const kNames[kCount];
  double seconds[kCount] = {};
  [[nodiscard]] static JobTimes of(const JobContext& job, const CallTimes& calls, Duration total);
};

/// Covers the graphs that ran on this rank of the frames that all ranks share, per frame in order;
/// equal on ranks that ran the same.
[[nodiscard]] shapes::Fingerprint program_fingerprint(const std::vector<FrameCounts>& frames);

/// What frames come to on all ranks, each line with the ranks whose line it is.
struct FrameLines {
  std::vector<RankValue> rows;    // of the table
  std::vector<RankValue> advice;  // "step: the list xs has come with …"
};

/// This rank's part of them. Of frames that ranks decide alone only rank 0 tells.
[[nodiscard]] FrameLines frame_lines(Rank self, const std::vector<FrameCounts>& frames);
/// The lines of all ranks. Collective. Errors: the communicator's.
[[nodiscard]] Result<FrameLines> gather(collectives::Communicator& all, const FrameLines& mine);

/// The table, for people. `least` and `most` are over the ranks; `frames` are this rank's.
[[nodiscard]] std::string summary_text(int ranks, const FrameLines& lines,
                                       const std::vector<FrameCounts>& frames,
                                       const CallTimes& calls, const JobTimes& least,
                                       const JobTimes& most, const BuildCost& built);

}  // namespace lockstep::worker
