#include <algorithm>
#include <cctype>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/worker/simulator/cost/network_file.h>
#include <lockstep/worker/simulator/draw/json_document.h>
#include <lockstep/worker/simulator/draw/regular_file.h>

namespace lockstep::worker::simulator {
namespace {

constexpr std::string_view kFormat = "lockstep.network/1";

/// A whole number and where it goes.
struct Field {
  std::string_view key;
  std::int64_t least, greatest;
  std::int64_t (*get)(const NetworkModel&);
  void (*set)(NetworkModel&, std::int64_t);
};

constexpr std::int64_t kMaxLatency = 1'000'000'000, kMaxRate = 1'000'000'000;
constexpr std::size_t kMostCrowds = 64;

// One host: what calibration measures.
constexpr Field kFields[] = {
    {"latency_ns", 0, kMaxLatency, [](const NetworkModel& n) { return n.within.latency_ns; },
     [](NetworkModel& n, std::int64_t v) { n.within.latency_ns = n.between.latency_ns = v; }},
    {"bytes_per_us", 1, kMaxRate, [](const NetworkModel& n) { return n.within.bytes_per_us; },
     [](NetworkModel& n, std::int64_t v) { n.within.bytes_per_us = n.between.bytes_per_us = v; }},
    {"cores", 1, 1 << 20, [](const NetworkModel& n) { return std::int64_t{n.cores_per_host}; },
     [](NetworkModel& n, std::int64_t v) { n.cores_per_host = static_cast<std::int32_t>(v); }},
    {"join_bytes_per_us", 1, kMaxRate, [](const NetworkModel& n) { return n.join_bytes_per_us; },
     [](NetworkModel& n, std::int64_t v) { n.join_bytes_per_us = v; }},
    {"read_bytes_per_us", 1, kMaxRate, [](const NetworkModel& n) { return n.read_bytes_per_us; },
     [](NetworkModel& n, std::int64_t v) { n.read_bytes_per_us = v; }},
};

/// [[RANKS, LATENCY_NS, READ_BYTES_PER_US], …], ascending. What is wrong with it; empty: nothing.
std::string read_crowds(const Json* json, NetworkModel& out) {
  const auto* list = json == nullptr ? nullptr : json->as<Json::Array>();
  if (list == nullptr || list->size() > kMostCrowds)
    return fmt::format("expected a list of at most {} crowds", kMostCrowds);
  std::int64_t below = out.cores_per_host;
  for (const Json& crowd : *list) {
    const auto* numbers = crowd.as<Json::Array>();
    if (numbers == nullptr || numbers->size() != 3) return "expected three integers in each";
    std::int64_t of[3];
    const std::int64_t least[] = {below + 1, 0, 1}, most[] = {1 << 24, kMaxLatency, kMaxRate};
    for (std::size_t i = 0; i < 3; ++i) {
      const auto* number = (*numbers)[i].as<std::int64_t>();
      if (number == nullptr || *number < least[i] || *number > most[i])
        return fmt::format("expected integers from {} to {} at place {} of each", least[i], most[i],
                           i);
      of[i] = *number;
    }
    below = of[0];
    out.crowds.push_back({static_cast<std::int32_t>(of[0]), of[1], of[2]});
  }
  return {};
}

Result<NetworkModel> read_network(const Json& json, const std::string& file) {
  const JsonPath root;
  const auto* members = json.as<Json::Object>();
  if (members == nullptr) return json_error(file, root, "expected an object");
  NetworkModel out;
  out.ranks_per_host = INT32_MAX;
  const Json* format = json.find("format");
  const auto* version = format == nullptr ? nullptr : format->as<std::string>();
  if (version == nullptr || *version != kFormat)
    return json_error(file, root.at("format"), fmt::format("expected \"{}\"", kFormat));
  for (const auto& member : *members)
    if (member.first != "format" && member.first != "crowds" &&
        std::none_of(std::begin(kFields), std::end(kFields),
                     [&](const Field& field) { return field.key == member.first; }))
      return json_error(file, root.at(member.first), "this key is unknown");
  for (const Field& field : kFields) {
    const Json* value = json.find(field.key);
    const auto* number = value == nullptr ? nullptr : value->as<std::int64_t>();
    if (number == nullptr || *number < field.least || *number > field.greatest)
      return json_error(
          file, root.at(field.key),
          fmt::format("expected an integer from {} to {}", field.least, field.greatest));
    field.set(out, *number);
  }
  if (const std::string wrong = read_crowds(json.find("crowds"), out); !wrong.empty())
    return json_error(file, root.at("crowds"), wrong);
  return out;
}

}  // namespace

bool network_name_fits(std::string_view name) {
  return !name.empty() && name.size() <= 64 && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
         });
}

std::string network_text(const NetworkModel& network) {
  nlohmann::ordered_json out{{"format", kFormat}};
  for (const Field& field : kFields) out[std::string(field.key)] = field.get(network);
  out["crowds"] = nlohmann::ordered_json::array();
  for (const Crowd& crowd : network.crowds)
    out["crowds"].push_back({crowd.ranks, crowd.latency_ns, crowd.read_bytes_per_us});
  return out.dump() + "\n";
}

Result<std::optional<NetworkModel>> load_network(std::string_view name, const std::string& folder) {
  if (!network_name_fits(name) || folder.empty()) return std::optional<NetworkModel>();
  const std::string file = fmt::format("{}/{}.json", folder, name);
  std::error_code failed;
  if (!std::filesystem::exists(file, failed) || failed) return std::optional<NetworkModel>();
  constexpr std::size_t kMost = 1 << 16;
  const auto text = read_file(file, kMost);
  if (!text) return text.error();
  const auto json = parse_json(*text, file);
  if (!json) return json.error();
  auto network = read_network(*json, file);
  if (!network) return network.error();
  network->name = std::string(name);
  return std::optional<NetworkModel>(*std::move(network));
}

}  // namespace lockstep::worker::simulator
