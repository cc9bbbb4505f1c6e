// One call of a scenario: which ranks make it with which inputs. Ranks stay ranges.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/collectives/base/rank.h>
#include <lockstep/worker/agree/exchange/observation.h>

namespace lockstep::worker::simulator {

/// One input value on some ranks.
struct ScenarioValue {
  Kind kind = Kind::Tensor;
  DType dtype = DType::F32;           // tensors only
  std::vector<std::int64_t> sizes;    // tensors only
  std::vector<std::int64_t> strides;  // tensors only; empty: contiguous
  std::vector<Mark> marks;            // tensors only, one per dim; empty: none
  std::int64_t number = 0;            // int: its value; bool: 0 or 1
  double real = 0;                    // float: its value
  bool operator==(const ScenarioValue&) const = default;
};

using ScenarioValues = std::map<std::string, ScenarioValue>;

/// Ranks that make a call with the same inputs.
struct ScenarioGroup {
  RankSet ranks;
  std::string frame;  // the group's own, else the call's
  ScenarioValues values;
  std::vector<Field> fields{};  // as in an observation
  /// Observation that each rank of the group makes.
  [[nodiscard]] Observation observation() const;
  bool operator==(const ScenarioGroup&) const = default;
};

struct ScenarioCall {
  std::optional<std::string> frame;   // as written on the call itself
  std::vector<ScenarioGroup> groups;  // disjoint
  RankSet present;                    // ranks of all groups
  bool operator==(const ScenarioCall&) const = default;
};

/// Observation of a rank with these inputs, without fields.
[[nodiscard]] Observation observation_of(const ScenarioValues& values);
/// Inputs that give this observation, except for the order of dims.
[[nodiscard]] ScenarioValues scenario_values(const Observation& seen);

}  // namespace lockstep::worker::simulator
