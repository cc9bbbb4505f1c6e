// Runs one job in several ways and compares them: without coordination, as upstream does, as
// lockstep does, and as lockstep does from the second run on or with the suggested marks.
#pragma once

#include <lockstep/worker/simulator/cluster/dry_run.h>

namespace lockstep::worker::simulator {

/// `result`: of a dry run of the scenario, with the counterfactual. `learnt`: what frames learnt
/// then.
[[nodiscard]] std::vector<RunVariant> compare_variants(const Scenario& scenario,
                                                       const DryRunResult& result,
                                                       const Profiles& learnt,
                                                       const OnProgress& progress = {});

/// Returns an error with the estimated memory if a run of this scenario does not fit. The run
/// includes compare_variants() if the options ask for it. nullopt: the run fits.
[[nodiscard]] std::optional<Status> too_large(const Scenario& scenario,
                                              const DryRunOptions& options);

}  // namespace lockstep::worker::simulator
