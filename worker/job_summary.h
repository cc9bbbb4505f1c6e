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

/// The table, for people. `least` and `most` are over the ranks.
[[nodiscard]] std::string summary_text(int ranks, const std::vector<FrameCounts>& frames,
                                       const CallTimes& calls, const JobTimes& least,
                                       const JobTimes& most, const BuildCost& built);

}  // namespace lockstep::worker
