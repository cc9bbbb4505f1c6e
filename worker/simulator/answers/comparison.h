// One job in several ways, side by side: without coordination, upstream's way, lockstep's, and
// lockstep's from the second run on or with the suggested marks.
#pragma once

#include <lockstep/worker/simulator/cluster/dry_run.h>

namespace lockstep::worker::simulator {

/// `result` is the scenario's, with the counterfactual. `learnt`: what frames learnt in that run.
[[nodiscard]] std::vector<RunVariant> compare_variants(const Scenario& scenario,
                                                       const DryRunResult& result,
                                                       const Profiles& learnt,
                                                       const OnProgress& progress = {});

/// Returns an error with the estimated memory if a run of this scenario does not fit. The run
/// includes compare_variants() if the options ask for it. nullopt: the run fits.
[[nodiscard]] std::optional<Status> too_large(const Scenario& scenario,
                                              const DryRunOptions& options);

}  // namespace lockstep::worker::simulator
