// libFuzzer target: whatever the text of a scenario or of a file of lengths, it is read or refused
// in one sentence, and what is read keeps to the format. Built where the compiler is clang;
// scripts/fuzz-scenarios runs it.
#include <algorithm>

#include "../../support/fuzz_target.h"

#include <lockstep/worker/simulator/draw/json_document.h>
#include <lockstep/worker/simulator/draw/lengths_file.h>
#include <lockstep/worker/simulator/input/scenario.h>

using namespace lockstep;
using namespace lockstep::worker::simulator;
using lockstep::fuzz::require;

namespace {

void require_sentence(const Status& error, std::string_view start) {
  require(error.code == Code::BadInput, "another code");
  require(error.message.starts_with(start), "the document is not named");
  require(error.message.ends_with("."), "no sentence");
  require(error.message.find('\n') == std::string::npos, "more than a line");
}

/// Whether it asks for larger tables than a fuzzer has time for.
bool costly(const Json& json, std::string_view key = {}) {
  const auto large = [&](double value) {
    const bool wide = key == "count" || key == "deviation" || key == "median";
    return (wide && value > 1000) || (key == "sigma" && value > 1);
  };
  if (const auto* integer = json.as<std::int64_t>()) return large(static_cast<double>(*integer));
  if (const auto* real = json.as<double>()) return large(*real);
  if (const auto* list = json.as<Json::Array>())
    return std::any_of(list->begin(), list->end(), [](const Json& one) { return costly(one); });
  if (const auto* members = json.as<Json::Object>())
    return std::any_of(members->begin(), members->end(),
                       [](const auto& member) { return costly(member.second, member.first); });
  return false;
}

void require_format(const Scenario& scenario) {
  const RankSet world = RankSet::all(scenario.world_size);
  if (scenario.faults)
    for (const Fault& fault : scenario.faults->list) {
      require(!fault.ranks.empty() && fault.ranks.minus(world).empty(), "a fault on nobody");
      require(!fault.call || *fault.call < scenario.count(), "a fault at no call");
    }
  for (const ScenarioCall& call : scenario.calls) {
    RankSet present;
    std::int64_t ranks = 0;
    for (const ScenarioGroup& group : call.groups) {
      present.insert(group.ranks);
      ranks += group.ranks.size();
      for (const auto& [source, value] : group.values) {
        require(!source.empty() && value.sizes.size() <= 16, "values beyond the format");
        for (const std::int64_t size : value.sizes) require(size >= 0, "a size below 0");
      }
    }
    require(present == call.present && present.size() == ranks, "groups that overlap");
    require(present.minus(world).empty(), "ranks outside the world");
  }
}

void read_scenario(std::string_view text) {
  const auto json = parse_json(text, "fuzz");
  if (!json) return require_sentence(json.error(), "fuzz: ");
  if (costly(*json)) return;
  ScenarioOptions options;
  if (json->find("generator") != nullptr) options.world_size = 12;
  const auto scenario = parse_scenario(text, "fuzz", options);
  if (!scenario) return require_sentence(scenario.error(), "fuzz: ");
  if (scenario->count() <= 2000) require_format(expanded(*scenario));
  require(*parse_scenario(text, "fuzz", options) == *scenario, "it is read as another scenario");
}

void read_lengths(std::string_view text) {
  const auto bins = parse_lengths(text, "fuzz");
  if (!bins) return require_sentence(bins.error(), "fuzz:");
  require(!bins->empty(), "nothing is a histogram");
  const Distribution drawn = Distribution::histogram(*bins);
  for (const std::uint64_t random : {std::uint64_t{0}, UINT64_MAX / 3, UINT64_MAX})
    require(drawn.at(random) >= 0, "a length below 0");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  read_scenario(text);
  read_lengths(text);
  return 0;
}
