// The dry run: a scenario through the very call machine of a real job, on virtual ranks.
#pragma once

#include <map>
#include <string>

#include <lockstep/worker/simulator/result.h>
#include <lockstep/worker/simulator/scenario.h>

namespace lockstep::worker::simulator {

/// How the ranks of a dry run are simulated; the results are equal, byte for byte.
enum class Manner {
  EveryRank,  // each rank exchanges messages on a simulated network
  Folded,     // one machine for each run of equal ranks
};

/// Worlds up to this size are simulated rank by rank.
inline constexpr int kEveryRankLimit = 64;

[[nodiscard]] DryRunResult dry_run(const Scenario& scenario, Manner manner);
/// Rank by rank where the world is small.
[[nodiscard]] DryRunResult dry_run(const Scenario& scenario);

/// Every rank alone, by the rules for a group of one.
[[nodiscard]] Uncoordinated run_uncoordinated(const Scenario& scenario);

/// The error of a call that `present` ranks made and the rest of the world did not.
[[nodiscard]] Status absent_ranks(const RankSet& present, int world_size);

}  // namespace lockstep::worker::simulator
