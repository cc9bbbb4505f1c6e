// Reads the parts of a scenario from JSON. Internal to scenario*.cpp and generator_reader.cpp.
#pragma once

#include <initializer_list>
#include <span>

#include <lockstep/worker/simulator/json_document.h>
#include <lockstep/worker/simulator/scenario.h>

namespace lockstep::worker::simulator {

/// The first thing that is wrong is kept in `error`; from then on nothing is read any more.
/// Functions that return bool are false where something is wrong.
class ScenarioReader {
 public:
  /// `name` outlives the reader.
  ScenarioReader(std::string_view name, const ScenarioOptions& options)
      : name_(name), options_(options) {}

  [[nodiscard]] Result<Scenario> read(const Json& root);

 private:
  // Fields: scenario_fields.cpp.
  bool fail(const JsonPath& path, std::string_view what);
  bool expect_kind(const Json& json, const JsonPath& path, bool ok, std::string_view wanted);
  const Json::Object* object(const Json& json, const JsonPath& path);
  const Json::Array* array(const Json& json, const JsonPath& path);
  bool known_keys(const Json& json, const JsonPath& path,
                  std::initializer_list<std::string_view> known);
  const Json* required(const Json& json, const JsonPath& path, std::string_view key);
  bool text(const Json& json, const JsonPath& path, std::string& out);
  bool integer(const Json& json, const JsonPath& path, std::int64_t low, std::int64_t high,
               std::int64_t& out);
  bool boolean(const Json& json, const JsonPath& path, bool& out);
  bool integers(const Json& json, const JsonPath& path, std::vector<std::int64_t>& out);
  bool choice(const Json& json, const JsonPath& path, std::span<const std::string_view> names,
              std::size_t& out);
  bool ranks(const Json& json, const JsonPath& path, RankSet& out);

  // The scenario: scenario.cpp.
  bool read_scenario(const Json& json, Scenario& out);
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

  // The generator: generator_reader.cpp.
  bool read_generator(const Json& json, const JsonPath& path, Generator& out);
  bool read_generated(const Json& json, const JsonPath& path, GeneratedCall& out);
  bool read_draws(Json& values, const JsonPath& path, GeneratedCall& out);
  bool read_draw(Json& json, const JsonPath& path, Draw draw, GeneratedCall& out);
  bool read_faults(const Json& json, const JsonPath& path, Generator& out);

  std::string_view name_;
  const ScenarioOptions& options_;
  int world_size_ = 1;
  std::optional<Status> error_;
};

}  // namespace lockstep::worker::simulator
