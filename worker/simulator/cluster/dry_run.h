// The dry run: runs a scenario on virtual ranks, with the call machine of a real job.
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

/// How the ranks of a dry run are simulated. The results are equal, byte for byte.
enum class Manner {
  EveryRank,  // each rank exchanges messages on a simulated network
  Folded,     // one machine for each run of equal ranks
  Streamed,   // one machine for each run of ranks with the same past; values are not held
  Drawn,      // one machine for each different input of a call: ranks draw from a record
};

/// Worlds up to this size are simulated rank by rank, unless ranks draw.
inline constexpr int kEveryRankLimit = 64;

/// Reports progress: `done` of `of` calls, or ranks of the counterfactual.
using OnProgress = std::function<void(std::string_view what, std::size_t done, std::size_t of)>;

/// Profiles of frames, as a job stores them, by name.
using Profiles = std::map<std::string, coordinator::Profile>;

struct DryRunOptions {
  bool counterfactual = true;      // else DryRunResult::uncoordinated is left out
  bool compare = false;            // compare_variants() will follow; too_large() counts it
  OnProgress progress{};           // called by one thread at a time; may be empty
  std::size_t most_spans = 0;      // limit of Timing::spans, in a scenario with costs
  const Profiles* from = nullptr;  // profiles that frames start from; null: none
  Profiles* learnt = nullptr;      // receives, at the end, what frames have learnt
};

/// If ranks draw their own inputs, EveryRank and Folded first make and hold all calls.
[[nodiscard]] DryRunResult dry_run(const Scenario& scenario, Manner manner,
                                   const DryRunOptions& options = {});
/// Chooses the manner: Drawn if ranks draw from a record, Streamed if they draw their own inputs,
/// else EveryRank in worlds of up to kEveryRankLimit ranks and Folded in larger ones. Also reports
/// on the scenario's faults.
[[nodiscard]] DryRunResult dry_run(const Scenario& scenario, const DryRunOptions& options = {});

/// Runs every rank alone, by the rules for a group of one.
[[nodiscard]] Uncoordinated run_uncoordinated(const Scenario& scenario,
                                              const OnProgress& progress = {});
/// Returns why two ranks diverge in `call`, which is the first call with a divergence.
[[nodiscard]] std::optional<Cause> uncoordinated_cause(const Scenario& scenario, std::size_t call);
/// Estimates the bytes that run_uncoordinated holds if ranks draw their own inputs.
[[nodiscard]] std::uint64_t uncoordinated_bytes(const Scenario& scenario);

/// Returns the error of a call that only `present` ranks made.
[[nodiscard]] Status absent_ranks(const RankSet& present, int world_size);

}  // namespace lockstep::worker::simulator
