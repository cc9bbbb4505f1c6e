// The ranks that run on their own in a counterfactual: one for each class of equal ranks, or every
// rank where ranks draw for themselves; and their inputs in a call.
#pragma once

#include <optional>
#include <vector>

#include <lockstep/worker/simulator/input/partition.h>
#include <lockstep/worker/simulator/input/scenario.h>

namespace lockstep::worker::simulator {

/// A rank that stands for its class of equal ranks.
struct Representative {
  std::size_t of = 0;  // its class
  std::int32_t rank = 0;
};

/// `apart`: ranks draw for themselves.
[[nodiscard]] std::vector<Representative> representatives_of(const std::vector<RankClass>& classes,
                                                             bool apart);

/// The inputs of the representatives in one call. Immutable; the scenario outlives it.
class CallView {
 public:
  CallView(const Scenario& scenario, const std::vector<RankClass>& classes, std::size_t call);
  /// Every rank makes the call, and all call one frame.
  [[nodiscard]] bool made_by_all() const { return by_all_; }
  [[nodiscard]] bool made_by(const Representative& representative) const {
    return groups_[representative.of] >= 0;
  }
  /// null where ranks do not draw for themselves.
  [[nodiscard]] const RankInputs* drawn() const { return inputs_ ? &*inputs_ : nullptr; }
  // Require that the representative makes the call.
  [[nodiscard]] const std::string& frame(const Representative& representative) const;
  /// `room` holds it where ranks draw for themselves; it is empty, or was used in this call.
  const Observation& of(const Representative& representative, Observation& room) const;

 private:
  std::vector<int> groups_;                   // of each class
  std::optional<RankInputs> inputs_;          // where ranks draw for themselves
  const GeneratedCall* kind_ = nullptr;       // there
  std::shared_ptr<const ScenarioCall> call_;  // else
  std::vector<Observation> seen_;             // by its groups
  bool by_all_ = false;
};

}  // namespace lockstep::worker::simulator
