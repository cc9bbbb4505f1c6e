// One job in several ways, side by side: without coordination, upstream's way, lockstep's, and
// lockstep's from the second run on or with the marks that are suggested.
#pragma once

#include <lockstep/worker/simulator/cluster/dry_run.h>

namespace lockstep::worker::simulator {

/// `result` is that of the scenario, with the counterfactual; `learnt` what its frames had learnt.
[[nodiscard]] std::vector<RunVariant> compare_variants(const Scenario& scenario,
                                                       const DryRunResult& result,
                                                       const Profiles& learnt,
                                                       const OnProgress& progress = {});

/// Why a run of this scenario, and compare_variants() where the options say so, does not fit into
/// memory, with the estimate; nullopt: it does.
[[nodiscard]] std::optional<Status> too_large(const Scenario& scenario,
                                              const DryRunOptions& options);

}  // namespace lockstep::worker::simulator
