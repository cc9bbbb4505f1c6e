// Explains the difference between two ranks of a call whose runs diverge.
#pragma once

#include <string>
#include <vector>

#include <lockstep/worker/agree/exchange/observation.h>
#include <lockstep/worker/simulator/cluster/run_variant.h>
#include <lockstep/worker/simulator/input/scenario.h>

namespace lockstep::worker::simulator {

/// One of two ranks that diverge.
struct Side {
  Rank rank;
  Observation seen;
  bool compiled = false;
  /// How the rank's program treats each value of `seen`: "5", "dynamic". Empty: the rank falls
  /// back.
  std::vector<std::string> uses;
};

/// Requires two sides of one call of `frame`.
[[nodiscard]] Cause cause_of(const Scenario& scenario, std::size_t call, const std::string& frame,
                             const Side& a, const Side& b);

}  // namespace lockstep::worker::simulator
