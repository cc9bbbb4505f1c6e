// A second, naive reading of worker/agree/exchange/rules.md: plain maps, rank by rank, written from
// the text alone and sharing no code with the lattice, the agreement or the simulator. Tests hold
// the dry run against it. Slow on purpose: meant for worlds of a dozen ranks. One file, however
// long, to be read beside the text.
#pragma once

#include <string>

#include <lockstep/worker/simulator/input/scenario.h>

namespace lockstep::worker::simulator {

/// The dry-run result as compact JSON, without `message`, `bytes_per_rank_max` and `rounds`.
[[nodiscard]] std::string oracle_result(const Scenario& scenario);

}  // namespace lockstep::worker::simulator
