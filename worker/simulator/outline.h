// The calls of a scenario by which ranks are told apart: explicit ones, and generated ones that
// some ranks stay away from. In the other generated calls all ranks are in one group.
#pragma once

#include <map>
#include <vector>

#include <lockstep/worker/simulator/partition.h>
#include <lockstep/worker/simulator/scenario.h>

namespace lockstep::worker::simulator {

/// Immutable.
class Outline {
 public:
  explicit Outline(const Scenario& scenario);
  /// What to partition().
  [[nodiscard]] const std::vector<ScenarioCall>& calls() const { return calls_; }
  /// The group that a class is in, of the groups of the scenario's call; -1: absent. Where ranks
  /// draw for themselves, and in every other generated call, that is 0.
  [[nodiscard]] int group_of(const RankClass& of, std::size_t call) const;

 private:
  std::size_t explicit_;
  std::vector<ScenarioCall> calls_;
  std::map<std::size_t, std::size_t> place_;  // of generated calls, in calls_
};

}  // namespace lockstep::worker::simulator
