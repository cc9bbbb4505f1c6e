// The same job as PyTorch would run it with its compiler collectives and guard collectives: sizes
// exchanged when something compiles, a vote on whether all ranks hit, and no agreement on zeros and
// ones, on marks, or on which entry runs. A model from its documented behaviour (README.md, "Ways
// compared"), not its code.
#pragma once

#include <cstdint>

#include <lockstep/worker/simulator/cluster/dry_run.h>
#include <lockstep/worker/simulator/cluster/way.h>

namespace lockstep::worker::simulator {

[[nodiscard]] Way upstream_way(const Scenario& scenario, const Progress& progress = {});
/// An estimate of what that holds at once where ranks draw for themselves.
[[nodiscard]] std::uint64_t upstream_bytes(const Scenario& scenario);

}  // namespace lockstep::worker::simulator
