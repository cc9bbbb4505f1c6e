// The same job as PyTorch would run it with its compiler collectives and guard collectives: sizes
// exchanged when something compiles, a vote on whether all ranks hit, and no agreement on zeros and
// ones, on marks, or on which entry runs. A model from its documented behaviour (README.md, "Ways
// compared"), not its code.
#pragma once

#include <cstdint>

#include <lockstep/worker/simulator/cluster/dry_run.h>
#include <lockstep/worker/simulator/cluster/run_variant.h>

namespace lockstep::worker::simulator {

[[nodiscard]] RunVariant pytorch_model(const Scenario& scenario, const OnProgress& progress = {});
/// Estimated peak memory of pytorch_model() where ranks draw for themselves.
[[nodiscard]] std::uint64_t pytorch_model_bytes(const Scenario& scenario);

}  // namespace lockstep::worker::simulator
