// The dry run: a scenario through the very call machine of a real job, on virtual ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <lockstep/coordinator/store/profile.h>
#include <lockstep/worker/simulator/cluster/result.h>
#include <lockstep/worker/simulator/input/scenario.h>

namespace lockstep::worker::simulator {

/// How the ranks of a dry run are simulated; the results are equal, byte for byte.
enum class Manner {
  EveryRank,  // each rank exchanges messages on a simulated network
  Folded,     // one machine for each run of equal ranks
  Streamed,   // one machine for each run of ranks with the same past; their values come and go
  Drawn,      // one machine for each different input of a call: ranks that draw from a record
};

/// Worlds up to this size are simulated rank by rank.
inline constexpr int kEveryRankLimit = 64;

/// How far a dry run is: `done` of `of` calls, or ranks of the counterfactual.
using Progress = std::function<void(std::string_view what, std::size_t done, std::size_t of)>;

/// What frames have learnt, as a job keeps it, by frame.
using Profiles = std::map<std::string, coordinator::Profile>;

struct DryRunOptions {
  bool counterfactual = true;      // else DryRunResult::uncoordinated is left out
  bool compare = false;            // compare_ways() follows: too_large() counts it
  Progress progress{};             // called from one thread at a time; may be empty
  std::size_t most_spans = 0;      // of Timing::spans, in a scenario with costs
  const Profiles* from = nullptr;  // what frames start from
  Profiles* learnt = nullptr;      // filled in at the end
};

/// Calls of ranks that draw for themselves are all held, except when streamed or drawn.
[[nodiscard]] DryRunResult dry_run(const Scenario& scenario, Manner manner,
                                   const DryRunOptions& options = {});
/// Streamed where ranks draw for themselves; else rank by rank where the world is small.
[[nodiscard]] DryRunResult dry_run(const Scenario& scenario, const DryRunOptions& options = {});

/// Every rank alone, by the rules for a group of one.
[[nodiscard]] Uncoordinated run_uncoordinated(const Scenario& scenario,
                                              const Progress& progress = {});
/// Why two ranks part ways in that call, which is the first in which any do.
[[nodiscard]] std::optional<Cause> uncoordinated_cause(const Scenario& scenario, std::size_t call);
/// An estimate of what run_uncoordinated holds at once where ranks draw for themselves.
[[nodiscard]] std::uint64_t uncoordinated_bytes(const Scenario& scenario);

/// The error of a call that `present` ranks made and the rest of the world did not.
[[nodiscard]] Status absent_ranks(const RankSet& present, int world_size);

}  // namespace lockstep::worker::simulator
