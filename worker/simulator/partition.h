// Ranks whose inputs are the same in every call of a scenario behave alike, so one of them can be
// simulated for all. Found by a sweep over range boundaries; no rank is looked at one by one.
#pragma once

#include <span>
#include <vector>

#include <lockstep/worker/simulator/scenario_call.h>

namespace lockstep::worker::simulator {

/// Ranks that are in the same group of inputs in every call.
struct RankClass {
  RankSet ranks;
  /// Per call: which of ScenarioCall::groups; -1 where these ranks are absent.
  std::vector<int> group;
  [[nodiscard]] Rank lowest() const { return ranks.lowest(); }
};

/// The classes of these calls, by their lowest ranks. They cover the world.
[[nodiscard]] std::vector<RankClass> partition(std::span<const ScenarioCall> calls, int world_size);

}  // namespace lockstep::worker::simulator
