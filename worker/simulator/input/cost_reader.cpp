// Reads the cost section of a scenario: {"network": "rdma", "skew_us": {"uniform": [0, 200]}, …}.
#include <cmath>
#include <set>

#include <fmt/format.h>

#include <lockstep/worker/simulator/input/recorded_costs.h>
#include <lockstep/worker/simulator/input/scenario_reader.h>

namespace lockstep::worker::simulator {
namespace {

constexpr double kMaxMicroseconds = 1e9;  // limit of one time

}  // namespace

bool ScenarioReader::read_cost(const Json& json, const JsonPath& path, CostModel& out) {
  if (object(json, path) == nullptr ||
      !known_keys(json, path,
                  {"network", "data_network", "device", "record", "skew_ns", "skew_us",
                   "deadline_s", "compile", "step", "frames"}))
    return false;
  const Json* network = options_.network ? nullptr : required(json, path, "network");
  if (!options_.network &&
      (network == nullptr || !read_network(*network, path.at("network"), out.network)))
    return false;
  if (const Json* data = json.find("data_network"))
    if (!read_data_network(*data, path.at("data_network"), out.data_network.emplace()))
      return false;
  if (const Json* device = json.find("device"))
    if (!read_device(*device, path.at("device"), out.device.emplace())) return false;
  if (const Json* record = json.find("record"))
    if (!read_recorded_costs(*record, path.at("record"), out)) return false;
  const Json *ns = json.find("skew_ns"), *us = json.find("skew_us");
  if (ns != nullptr && us != nullptr) return fail(path, "skew_ns and skew_us exclude each other");
  out.skew_unit_ns = us != nullptr ? 1000 : 1;
  if (ns != nullptr && !read_skew(*ns, path.at("skew_ns"), out)) return false;
  if (us != nullptr && !read_skew(*us, path.at("skew_us"), out)) return false;
  double seconds = 60;
  if (const Json* deadline = json.find("deadline_s"))
    if (!real(*deadline, path.at("deadline_s"), 0.001, 1e6, seconds)) return false;
  out.deadline_ns = std::llround(seconds * 1e9);
  if (!read_frame_cost(json, path, out, out.usual)) return false;
  for (auto& [frame, cost] : out.frames)  // frames of the record
    if (!read_frame_cost(json, path, out, cost)) return false;
  const Json* frames = json.find("frames");
  return frames == nullptr || read_frame_costs(*frames, path.at("frames"), out);
}

bool ScenarioReader::read_skew(const Json& json, const JsonPath& path, CostModel& out) {
  GeneratedCall one;
  if (object(json, path) == nullptr ||
      !read_draw(json, path, {.source = "skew", .dim = 0, .from = {}, .per = {}}, one))
    return false;
  out.skew = std::move(one.draws.front());
  return true;
}

/// Checks that each frame with costs is called somewhere in the scenario.
bool ScenarioReader::known_frames(const Json& json, const JsonPath& path,
                                  const Scenario& scenario) {
  const Json* frames = json.find("frames");
  if (frames == nullptr) return true;
  std::set<std::string> called;
  for (std::size_t i = 0; i < scenario.explicit_count(); ++i)
    for (const auto call = scenario.call(i); const ScenarioGroup& group : call->groups)
      called.insert(group.frame);
  for (const Block& block : scenario.generator.blocks) {
    called.insert(block.call.frame);
    for (const Variant& variant : block.variants) called.insert(variant.call.frame);
  }
  for (const auto& [frame, cost] : *frames->as<Json::Object>())
    if (!called.contains(frame))
      return fail(path.at("frames").at(frame), "no call of the scenario has this frame");
  return true;
}

bool ScenarioReader::read_frame_costs(const Json& json, const JsonPath& path, CostModel& out) {
  if (object(json, path) == nullptr) return false;
  for (const auto& [frame, cost] : *json.as<Json::Object>()) {
    const JsonPath at = path.at(frame);
    if (object(cost, at) == nullptr || !known_keys(cost, at, {"compile", "step"})) return false;
    if (!read_frame_cost(cost, at, out, out.frames.try_emplace(frame, out.usual).first->second))
      return false;
  }
  return true;
}

/// Keys that are given replace the values in `out`.
bool ScenarioReader::read_frame_cost(const Json& json, const JsonPath& path, const CostModel& model,
                                     FrameCost& out) {
  if (const Json* compile = json.find("compile"))
    if (!read_compile(*compile, path.at("compile"), out.compile)) return false;
  const Json* step = json.find("step");
  return step == nullptr || read_step(*step, path.at("step"), model, out.step);
}

bool ScenarioReader::read_compile(const Json& json, const JsonPath& path, CompileModel& out) {
  out = {.constant_ns = 0};
  return object(json, path) != nullptr &&
         known_keys(json, path, {"constant_us", "per_source_us", "per_symbol_us"}) &&
         microseconds(json, path, "constant_us", out.constant_ns) &&
         microseconds(json, path, "per_source_us", out.per_source_ns) &&
         microseconds(json, path, "per_symbol_us", out.per_symbol_ns);
}

bool ScenarioReader::read_step(const Json& json, const JsonPath& path, const CostModel& model,
                               StepModel& out) {
  out = {};
  if (object(json, path) == nullptr ||
      !known_keys(json, path,
                  {"constant_us", "per_element_ns", "kernels", "memory", "collectives"}) ||
      !microseconds(json, path, "constant_us", out.constant_ns) ||
      !microseconds(json, path, "per_element_ns", out.per_element_ps) ||
      !read_device_step(json, path, model.device, out))
    return false;
  const Json* collectives = json.find("collectives");
  const JsonPath list_path = path.at("collectives");
  if (collectives == nullptr) return true;
  if (array(*collectives, list_path) == nullptr) return false;
  constexpr std::size_t kMost = 1000;
  const auto& list = *collectives->as<Json::Array>();
  if (list.size() > kMost)
    return fail(list_path,
                fmt::format("{} collectives, where at most {} are possible", list.size(), kMost));
  for (std::size_t i = 0; i < list.size(); ++i)
    if (!read_collective(list[i], list_path.at(i), out.collectives.emplace_back())) return false;
  return true;
}

/// Reads {"all_reduce": BYTES, "count": 2}.
bool ScenarioReader::read_collective(const Json& json, const JsonPath& path, DataCollective& out) {
  constexpr std::string_view kKinds[] = {"all_reduce", "reduce_scatter", "all_gather",
                                         "all_to_all"};
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;
  if (object(json, path) == nullptr ||
      !known_keys(json, path, {kKinds[0], kKinds[1], kKinds[2], kKinds[3], "count"}))
    return false;
  const Json* count = json.find("count");
  if (json.as<Json::Object>()->size() != (count == nullptr ? 1 : 2))
    return fail(path, "expected one collective and its bytes");
  if (count != nullptr && !integer(*count, path.at("count"), 1, 1'000'000, out.count)) return false;
  std::size_t kind = 0;
  while (json.find(kKinds[kind]) == nullptr) ++kind;
  out.kind = static_cast<DataCollective::Kind>(kind);
  return integer(*json.find(kKinds[kind]), path.at(kKinds[kind]), 0, kMostBytes, out.bytes);
}

bool ScenarioReader::read_network(const Json& json, const JsonPath& path, NetworkModel& out) {
  if (const auto* name = json.as<std::string>()) {
    const auto network = parse_network(*name, options_.networks);
    if (!network || name->find('=') != std::string::npos)
      return fail(path, fmt::format("{} is neither shm, tcp or rdma nor a calibrated network",
                                    in_quotes(*name)));
    out = *network;
    return true;
  }
  if (object(json, path) == nullptr ||
      !known_keys(json, path, {"alpha_us", "beta_gbps", "ranks_per_host", "within"}) ||
      !read_link(json, path, out.between))
    return false;
  const NetworkModel usual = *parse_network("shm", "");  // gives the speed of processors
  out.name = "own";
  out.join_bytes_per_us = usual.join_bytes_per_us;
  out.read_bytes_per_us = usual.read_bytes_per_us;
  out.within = out.between;
  std::int64_t ranks = 1;
  if (const Json* given = json.find("ranks_per_host"))
    if (!integer(*given, path.at("ranks_per_host"), 1, kMaxWorldSize, ranks)) return false;
  out.ranks_per_host = static_cast<std::int32_t>(ranks);
  if (const Json* within = json.find("within"))
    if (object(*within, path.at("within")) == nullptr ||
        !known_keys(*within, path.at("within"), {"alpha_us", "beta_gbps"}) ||
        !read_link(*within, path.at("within"), out.within))
      return false;
  return true;
}

bool ScenarioReader::read_link(const Json& json, const JsonPath& path, Link& out) {
  const Json *alpha = required(json, path, "alpha_us"), *beta = nullptr;
  if (alpha != nullptr) beta = required(json, path, "beta_gbps");
  double gigabytes = 0;
  if (beta == nullptr || !microseconds(json, path, "alpha_us", out.latency_ns) ||
      !real(*beta, path.at("beta_gbps"), 0.001, 1e6, gigabytes))
    return false;
  out.bytes_per_us = std::llround(gigabytes * 1000);
  return true;
}

/// Reads microseconds as nanoseconds (or nanoseconds as picoseconds); `out` is unchanged if the key
/// is missing.
bool ScenarioReader::microseconds(const Json& json, const JsonPath& path, std::string_view key,
                                  std::int64_t& out) {
  const Json* given = json.find(key);
  double value = 0;
  if (given == nullptr) return true;
  if (!real(*given, path.at(key), 0, kMaxMicroseconds, value)) return false;
  out = std::llround(value * 1000);
  return true;
}

/// Reads the record in a directory beside the scenario: its job's times, by frame.
bool ScenarioReader::read_recorded_costs(const Json& json, const JsonPath& path, CostModel& out) {
  std::string directory;
  if (!text(json, path, directory)) return false;
  const auto place = beside(path, directory);
  if (!place) return false;
  const auto costs = recorded_costs(*place);
  if (!costs) {
    std::string what = costs.error().message;
    if (what.ends_with('.')) what.pop_back();
    return fail(path, what);
  }
  put_costs(*costs, out);
  return true;
}

}  // namespace lockstep::worker::simulator
