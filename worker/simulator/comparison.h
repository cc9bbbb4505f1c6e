// One job in several ways, side by side: without coordination, upstream's way, lockstep's, and
// lockstep's from the second run on or with the marks that are suggested.
#pragma once

#include <lockstep/worker/simulator/dry_run.h>

namespace lockstep::worker::simulator {

/// `result` is that of the scenario, with the counterfactual; `learnt` what its frames had learnt.
[[nodiscard]] std::vector<Way> compare_ways(const Scenario& scenario, const DryRunResult& result,
                                            const Profiles& learnt, const Progress& progress = {});

/// An estimate of what that holds at once, beside the run itself.
[[nodiscard]] std::uint64_t comparison_bytes(const Scenario& scenario);

}  // namespace lockstep::worker::simulator
