// The same job as PyTorch would run it with its compiler collectives and guard collectives: sizes
// are exchanged when something compiles, ranks vote on whether all hit, and there is no agreement
// on zeros and ones, on marks, or on which entry runs. A model of its documented behaviour
// (README.md, "Ways compared"), not of its code.
#pragma once

#include <cstdint>

#include <lockstep/worker/simulator/cluster/dry_run.h>
#include <lockstep/worker/simulator/cluster/run_variant.h>

namespace lockstep::worker::simulator {

[[nodiscard]] RunVariant pytorch_model(const Scenario& scenario, const OnProgress& progress = {});
/// Estimated peak memory of pytorch_model(); 0 unless ranks draw for themselves.
[[nodiscard]] std::uint64_t pytorch_model_bytes(const Scenario& scenario);

}  // namespace lockstep::worker::simulator
