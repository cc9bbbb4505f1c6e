// Scenario: the calls of every rank of a job with their inputs, as data (scenario.md). Reading is
// strict; ranks stay ranges, so a world of millions costs nothing.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/worker/agree/exchange/decision.h>
#include <lockstep/worker/simulator/cost/cost_model.h>
#include <lockstep/worker/simulator/input/fault.h>
#include <lockstep/worker/simulator/input/generator.h>
#include <lockstep/worker/simulator/input/known_traces.h>
#include <lockstep/worker/simulator/input/scenario_call.h>
#include <lockstep/worker/simulator/input/stored_calls.h>

namespace lockstep::worker::simulator {

inline constexpr int kMaxWorldSize = 16'777'216;

struct Scenario {
  int world_size = 1;
  DecisionConfig config{.settle = false};
  std::vector<ScenarioCall> calls;
  Generator generator;                             // makes the calls after `calls` and `stored`
  std::optional<CostModel> cost = std::nullopt;    // nullopt: nothing is timed
  std::optional<FaultPlan> faults = std::nullopt;  // nullopt: nothing goes wrong
  /// Calls between `calls` and the generated ones; null: none.
  std::shared_ptr<const StoredCalls> stored = nullptr;
  /// Configurations of frames that do not use `config`. Only records with agreements have them.
  std::map<std::string, DecisionConfig> own_configs{};
  /// Results of traces; null: the program of a decision is taken to be the decision.
  std::shared_ptr<const KnownTraces> traces = nullptr;

  [[nodiscard]] const DecisionConfig& config_of(const std::string& frame) const {
    const auto own = own_configs.find(frame);
    return own == own_configs.end() ? config : own->second;
  }
  [[nodiscard]] std::size_t count() const { return explicit_count() + generator.count(); }
  /// Number of calls that are not generated.
  [[nodiscard]] std::size_t explicit_count() const {
    return calls.size() + (stored ? stored->size() : 0);
  }
  /// Call `index`; read now if it is stored, made now if it is generated. The scenario outlives the
  /// result.
  [[nodiscard]] std::shared_ptr<const ScenarioCall> call(std::size_t index) const;
  /// Reason why a stored call could not be read again. All results of this scenario are then void.
  [[nodiscard]] std::optional<Status> error() const {
    return stored ? stored->error() : std::nullopt;
  }
  bool operator==(const Scenario&) const = default;
};

/// Same scenario with every call made and held, and no generator.
[[nodiscard]] Scenario expanded(const Scenario& scenario);

/// Options of the command line. `world_size` and `seed` need a generator section.
struct ScenarioOptions {
  std::optional<int> world_size;      // replaces the scenario's
  std::optional<std::uint64_t> seed;  // replaces the generator's
  /// Folder of files that the scenario names; nullopt: none is read, and naming one is an error.
  std::optional<std::string> folder = std::nullopt;
  std::optional<NetworkModel> network = std::nullopt;  // replaces the cost section's
  std::string networks{};                              // folder of calibrated networks
};

/// Reads scenario text; `name` is used in messages. Errors: BadInput, "NAME: PATH: what is wrong".
[[nodiscard]] Result<Scenario> parse_scenario(std::string_view text, std::string_view name,
                                              const ScenarioOptions& options = {});
/// Reads a scenario file: JSON, or JSON lines where its name ends in .jsonl. Errors: BadInput.
[[nodiscard]] Result<Scenario> load_scenario(const std::string& path,
                                             const ScenarioOptions& options = {});

/// Reads a set such as "0-3,7". On errors returns nullopt, with the reason in `error`.
[[nodiscard]] std::optional<RankSet> parse_ranks(std::string_view text, int world_size,
                                                 std::string& error);

}  // namespace lockstep::worker::simulator
