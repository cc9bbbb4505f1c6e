// Why a call of a dry run compiled, or fell back: which values no entry served, and on which ranks.
#pragma once

#include <string>
#include <vector>

#include <lockstep/worker/simulator/cluster/result.h>
#include <lockstep/worker/simulator/draw/truncated_rank_set.h>
#include <lockstep/worker/simulator/input/scenario.h>

namespace lockstep::worker::simulator {

/// What kept one entry from serving some ranks of a call.
struct Obstacle {
  std::string source;  // "tokens.size(0)", "n"; "" if the entry has other sources
  std::string needs;   // what the entry has: "5", "at least 2"; or: "the entry has no input mask"
  TruncatedRankSet ranks;
  std::int64_t least = 0, greatest = 0;  // range of the value on these ranks
  std::string mark;                      // the rank's mark, if the entry does not honour it
  std::string field;  // text of a field that does not fit: "capacity is 600, the entry has max 512"
  /// Text such as "tokens.size(0) is 6 to 9 on ranks 3-7, the entry has 5".
  [[nodiscard]] std::string text() const;
};

struct UnfitEntry {
  static constexpr std::size_t kObstacles = 12;
  int entry = 0;
  TruncatedRankSet ranks;  // ranks that it does not fit
  std::vector<Obstacle>
      obstacles;             // at most kObstacles, in the order of sources and dims, then fields
  std::size_t left_out = 0;  // number of further obstacles
};

/// Call that no entry served on all ranks.
struct Recompile {
  std::size_t call = 0;
  std::string frame;
  int entry = -1;                   // the new entry; -1: the limit was reached
  std::vector<UnfitEntry> entries;  // earlier entries; empty: the frame's first call
};

/// Explains every compile of the run, and the first fallback of each frame. `scenario` holds the
/// inputs of the calls of `result`, which may be a replay's.
[[nodiscard]] std::vector<Recompile> explain_compiles(const Scenario& scenario,
                                                      const DryRunResult& result);

}  // namespace lockstep::worker::simulator
