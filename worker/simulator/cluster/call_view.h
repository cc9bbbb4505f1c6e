// The ranks that run alone in a counterfactual, and their inputs in a call. One rank represents
// each class of equal ranks; if ranks draw their own inputs, every rank represents itself.
#pragma once

#include <optional>
#include <vector>

#include <lockstep/worker/simulator/input/partition.h>
#include <lockstep/worker/simulator/input/scenario.h>

namespace lockstep::worker::simulator {

/// A rank that represents its class of equal ranks, or itself.
struct Representative {
  std::size_t of = 0;  // number of its class
  std::int32_t rank = 0;
};

/// Returns the lowest rank of each class; all ranks if `apart` (ranks draw their own inputs).
[[nodiscard]] std::vector<Representative> representatives_of(const std::vector<RankClass>& classes,
                                                             bool apart);

/// The inputs of the representatives in one call. Immutable; the scenario outlives it.
class CallView {
 public:
  CallView(const Scenario& scenario, const std::vector<RankClass>& classes, std::size_t call);
  /// True if every rank makes the call, and all call one frame.
  [[nodiscard]] bool made_by_all() const { return by_all_; }
  [[nodiscard]] bool made_by(const Representative& representative) const {
    return groups_[representative.of] >= 0;
  }
  /// Null unless ranks draw their own inputs.
  [[nodiscard]] const RankInputs* drawn() const { return inputs_ ? &*inputs_ : nullptr; }
  // The following require that the representative makes the call.
  [[nodiscard]] const std::string& frame(const Representative& representative) const;
  /// Returns the representative's inputs. If ranks draw their own, stores them in `room`: an
  /// observation that is empty or was used with this view before.
  const Observation& of(const Representative& representative, Observation& room) const;

 private:
  std::vector<int> groups_;                   // by class
  std::optional<RankInputs> inputs_;          // if ranks draw their own
  const GeneratedCall* kind_ = nullptr;       // set if ranks draw their own
  std::shared_ptr<const ScenarioCall> call_;  // set otherwise
  std::vector<Observation> seen_;             // by group of call_
  bool by_all_ = false;
};

}  // namespace lockstep::worker::simulator
