// Reads the parts of a scenario from JSON. Internal to this folder.
#pragma once

#include <initializer_list>
#include <span>

#include <lockstep/worker/simulator/draw/json_document.h>
#include <lockstep/worker/simulator/draw/regular_file.h>
#include <lockstep/worker/simulator/input/generator.h>
#include <lockstep/worker/simulator/input/scenario.h>

namespace lockstep::worker::simulator {

/// The first error is kept in `error_`; from then on nothing is read any more. Functions that
/// return bool return false on an error.
class ScenarioReader {
 public:
  /// `name` outlives the reader.
  ScenarioReader(std::string_view name, const ScenarioOptions& options)
      : name_(name), options_(options) {}

  [[nodiscard]] Result<Scenario> read(const Json& root);
  /// Reads a scenario whose calls are on the following lines of the file at `path`.
  [[nodiscard]] Result<Scenario> read(const Json& root, LineReader& lines, const std::string& path);
  /// Reads one call, for a world of the size in the options.
  [[nodiscard]] Result<ScenarioCall> read_call_alone(const Json& json);

 private:
  // Fields: scenario_fields.cpp.
  bool fail(const JsonPath& path, std::string_view what);
  bool expect_kind(const Json& json, const JsonPath& path, bool ok, std::string_view wanted);
  const Json::Object* object(const Json& json, const JsonPath& path);
  const Json::Array* array(const Json& json, const JsonPath& path);
  bool known_keys(const Json& json, const JsonPath& path, std::span<const std::string_view> known);
  bool known_keys(const Json& json, const JsonPath& path,
                  std::initializer_list<std::string_view> known) {
    return known_keys(json, path, std::span(known.begin(), known.size()));
  }
  const Json* required(const Json& json, const JsonPath& path, std::string_view key);
  bool text(const Json& json, const JsonPath& path, std::string& out);
  bool integer(const Json& json, const JsonPath& path, std::int64_t low, std::int64_t high,
               std::int64_t& out);
  bool boolean(const Json& json, const JsonPath& path, bool& out);
  bool integers(const Json& json, const JsonPath& path, std::vector<std::int64_t>& out);
  bool choice(const Json& json, const JsonPath& path, std::span<const std::string_view> names,
              std::size_t& out);
  bool ranks(const Json& json, const JsonPath& path, RankSet& out);
  bool real(const Json& json, const JsonPath& path, double low, double high, double& out);
  bool integer_list(const Json& json, const JsonPath& path, std::int64_t low,
                    std::vector<std::int64_t>& out);

  // The scenario: scenario.cpp.
  bool read_scenario(const Json& json, Scenario& out);
  bool read_calls(const Json& json, bool needed, std::vector<ScenarioCall>& out);
  bool read_lines(Scenario& out);
  bool read_config(const Json& json, const JsonPath& path, DecisionConfig& out);
  bool read_call(const Json& json, const JsonPath& path, ScenarioCall& out);
  bool read_group(const Json& json, const JsonPath& path, const ScenarioCall& call,
                  ScenarioGroup& out);
  bool disjoint(const JsonPath& inputs, ScenarioCall& call);

  // Values: scenario_value.cpp.
  bool read_values(const Json& json, const JsonPath& path,
                   std::map<std::string, ScenarioValue>& out);
  bool read_value(const Json& json, const JsonPath& path, ScenarioValue& out);
  bool read_tensor(const Json& json, const JsonPath& path, ScenarioValue& out);
  bool read_marks(const Json& json, const JsonPath& path, ScenarioValue& out);

  // Fields of users: scenario_user_field.cpp.
  bool read_user_fields(const Json& json, const JsonPath& path, ScenarioGroup& out);
  bool read_user_field(const Json& json, const JsonPath& path, Field& out);
  bool read_hex(const Json& json, const JsonPath& path, std::string& out);

  // The generator: generator_reader.cpp.
  bool read_generator(const Json& json, const JsonPath& path, Generator& out);
  bool read_block(const Json& json, const JsonPath& path, Block& out);
  bool read_variant(const Json& json, const JsonPath& path, const Json& values, const Block& block,
                    Variant& out);
  bool read_when(const Json& json, const JsonPath& path, Variant& out);
  bool read_generated(Json values, const JsonPath& path, GeneratedCall& out);
  bool read_grid(const Json& json, const JsonPath& path);
  bool read_absences(const Json& json, const JsonPath& path, Generator& out);

  // Faults: fault_reader.cpp.
  bool read_faults(const Json& json, const JsonPath& path, const Scenario& scenario,
                   FaultPlan& out);
  bool read_fault(const Json& json, const JsonPath& path, std::size_t calls, std::uint64_t seed,
                  const RankSet& taken, Fault& out);
  bool known_fault_keys(const Json& json, const JsonPath& path, Fault::Kind kind);
  bool read_victims(const Json& json, const JsonPath& path, std::uint64_t seed,
                    const RankSet& taken, Fault& out);
  bool read_moment(const Json& json, const JsonPath& path, std::size_t calls, std::uint64_t seed,
                   Fault& out);
  bool read_extent(const Json& json, const JsonPath& path, Fault& out);
  bool read_seconds(const Json& json, const JsonPath& path, std::string_view key, double least,
                    Duration& out);

  // Draws: draw_reader.cpp.
  bool read_draw(const Json& json, const JsonPath& path, Draw draw, GeneratedCall& out);
  bool read_sharing(const Json& json, const JsonPath& path, Sharing& out);
  bool read_axes(const Json::Array& names, const JsonPath& path, Sharing& out);
  bool read_bounds(const Json& json, const JsonPath& path, Bounds& out);
  bool read_distribution(const Json& json, std::string_view kind, const JsonPath& path,
                         std::int64_t least, Bounds bounds, Distribution& out);
  bool read_moments(const Json& json, std::string_view kind, const JsonPath& path, Bounds bounds,
                    Distribution& out);
  bool read_zipf(const Json& json, const JsonPath& path, Distribution& out);
  bool read_histogram(const Json& json, const JsonPath& path, std::int64_t least,
                      Distribution& out);
  bool read_lengths(const Json& json, const JsonPath& path, Distribution& out);
  bool read_batches(const Json& json, const JsonPath& path, Batches& out);
  /// Path of a file beside the scenario or below its folder.
  std::optional<std::string> beside(const JsonPath& path, const std::string& name);

  // The cost section: cost_reader.cpp.
  bool read_cost(const Json& json, const JsonPath& path, CostModel& out);
  bool read_skew(const Json& json, const JsonPath& path, CostModel& out);
  bool known_frames(const Json& json, const JsonPath& path, const Scenario& scenario);
  bool read_frame_costs(const Json& json, const JsonPath& path, CostModel& out);
  bool read_frame_cost(const Json& json, const JsonPath& path, const CostModel& model,
                       FrameCost& out);
  bool read_compile(const Json& json, const JsonPath& path, CompileModel& out);
  bool read_step(const Json& json, const JsonPath& path, const CostModel& model, StepModel& out);
  bool read_collective(const Json& json, const JsonPath& path, DataCollective& out);
  bool read_network(const Json& json, const JsonPath& path, NetworkModel& out);
  bool read_link(const Json& json, const JsonPath& path, Link& out);
  bool read_recorded_costs(const Json& json, const JsonPath& path, CostModel& out);
  bool microseconds(const Json& json, const JsonPath& path, std::string_view key,
                    std::int64_t& out);

  // Devices and their network: device_reader.cpp.
  bool read_device(const Json& json, const JsonPath& path, DeviceModel& out);
  bool read_rates(const Json& json, const JsonPath& path, DeviceModel& out);
  bool read_device_step(const Json& json, const JsonPath& path,
                        const std::optional<DeviceModel>& device, StepModel& out);
  bool read_kernel(const Json& json, const JsonPath& path, const DeviceModel& device,
                   KernelWork& out);
  bool read_amount(const Json& json, const JsonPath& path, const std::string& name, Amount& out);
  bool read_data_network(const Json& json, const JsonPath& path, DataNetwork& out);
  bool read_named_link(const Json& json, const JsonPath& path, Link& out);
  bool hosts_fit(const JsonPath& path, const DataNetwork& network, bool within, bool between);

  std::string_view name_;
  const ScenarioOptions& options_;
  LineReader* lines_ = nullptr;  // lines with the calls; null: the calls are in the document
  std::string path_{};           // file of those lines
  int world_size_ = 1;
  std::int64_t ranks_per_host_ = 0;                          // 0: not given
  std::vector<std::pair<std::string, Sharing::Axis>> grid_;  // slowest first; none: no grid
  std::optional<Status> error_;
};

}  // namespace lockstep::worker::simulator
