// A scenario: what every rank of a job calls with which inputs, as data (formats.md, "Scenario,
// version 1"). Read strictly; ranks stay ranges, so a world of millions costs nothing.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/base/rank.h>
#include <lockstep/worker/decision.h>
#include <lockstep/worker/observation.h>

namespace lockstep::worker::simulator {

inline constexpr int kMaxWorldSize = 16'777'216;

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

/// Ranks that make a call with the same inputs.
struct ScenarioGroup {
  RankSet ranks;
  std::string frame;  // the group's own, else the call's
  std::map<std::string, ScenarioValue> values;
  bool operator==(const ScenarioGroup&) const = default;
};

struct ScenarioCall {
  std::optional<std::string> frame;   // as written on the call itself
  std::vector<ScenarioGroup> groups;  // disjoint
  RankSet present;                    // of all groups
  bool operator==(const ScenarioCall&) const = default;
};

struct Scenario {
  int world_size = 1;
  DecisionConfig config;
  std::vector<ScenarioCall> calls;
  bool operator==(const Scenario&) const = default;
};

/// What the command line says of a scenario with a generator section.
struct ScenarioOptions {
  std::optional<int> world_size;      // in place of the scenario's
  std::optional<std::uint64_t> seed;  // in place of the generator's
};

/// Reads scenario text and runs its generator; `name` stands in messages. Errors: BadInput,
/// "NAME: PATH: what is wrong".
[[nodiscard]] Result<Scenario> parse_scenario(std::string_view text, std::string_view name,
                                              const ScenarioOptions& options = {});
/// Reads a scenario file. Errors: BadInput.
[[nodiscard]] Result<Scenario> load_scenario(const std::string& path,
                                             const ScenarioOptions& options = {});

/// "0-3,7" as a set. Errors: the text of what is wrong with it, in `error`, and nullopt.
[[nodiscard]] std::optional<RankSet> parse_ranks(std::string_view text, int world_size,
                                                 std::string& error);

}  // namespace lockstep::worker::simulator
