#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/worker/simulator/input/scenario_reader.h>

namespace lockstep::worker::simulator {
namespace {

constexpr std::size_t kMaxDims = 16;

}  // namespace

bool ScenarioReader::fail(const JsonPath& path, std::string_view what) {
  if (!error_) error_ = json_error(name_, path, what);
  return false;
}

bool ScenarioReader::expect_kind(const Json& json, const JsonPath& path, bool ok,
                                 std::string_view wanted) {
  return ok || fail(path, fmt::format("expected {}, found {}", wanted, json.kind()));
}

const Json::Object* ScenarioReader::object(const Json& json, const JsonPath& path) {
  const auto* out = json.as<Json::Object>();
  expect_kind(json, path, out != nullptr, "an object");
  return out;
}

const Json::Array* ScenarioReader::array(const Json& json, const JsonPath& path) {
  const auto* out = json.as<Json::Array>();
  expect_kind(json, path, out != nullptr, "a list");
  return out;
}

bool ScenarioReader::known_keys(const Json& json, const JsonPath& path,
                                std::span<const std::string_view> known) {
  for (const auto& [key, value] : *json.as<Json::Object>())
    if (std::find(known.begin(), known.end(), key) == known.end())
      return fail(path.at(key),
                  fmt::format("unknown key; known here are {}", fmt::join(known, ", ")));
  return true;
}

const Json* ScenarioReader::required(const Json& json, const JsonPath& path, std::string_view key) {
  const Json* out = json.find(key);
  if (out == nullptr) fail(path.at(key), "this key is missing");
  return out;
}

bool ScenarioReader::text(const Json& json, const JsonPath& path, std::string& out) {
  const auto* text = json.as<std::string>();
  if (!expect_kind(json, path, text != nullptr, "a string")) return false;
  out = *text;
  return true;
}

bool ScenarioReader::integer(const Json& json, const JsonPath& path, std::int64_t low,
                             std::int64_t high, std::int64_t& out) {
  const auto* number = json.as<std::int64_t>();
  if (!expect_kind(json, path, number != nullptr, "an integer")) return false;
  if (*number < low || *number > high)
    return fail(path,
                high == INT64_MAX
                    ? fmt::format("{} is too small, the least is {}", *number, low)
                    : fmt::format("{} is out of range, which is {} to {}", *number, low, high));
  out = *number;
  return true;
}

bool ScenarioReader::boolean(const Json& json, const JsonPath& path, bool& out) {
  const auto* flag = json.as<bool>();
  if (!expect_kind(json, path, flag != nullptr, "true or false")) return false;
  out = *flag;
  return true;
}

bool ScenarioReader::integers(const Json& json, const JsonPath& path,
                              std::vector<std::int64_t>& out) {
  const auto* list = array(json, path);
  if (list == nullptr) return false;
  if (list->size() > kMaxDims)
    return fail(path,
                fmt::format("{} dims, where at most {} are possible", list->size(), kMaxDims));
  out.resize(list->size());
  for (std::size_t i = 0; i < list->size(); ++i)
    if (!integer((*list)[i], path.at(i), 0, INT64_MAX, out[i])) return false;
  return true;
}

bool ScenarioReader::choice(const Json& json, const JsonPath& path,
                            std::span<const std::string_view> names, std::size_t& out) {
  std::string name;
  if (!text(json, path, name)) return false;
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    return fail(path, fmt::format("{} is not one of {}", in_quotes(name), fmt::join(names, ", ")));
  out = static_cast<std::size_t>(found - names.begin());
  return true;
}

bool ScenarioReader::ranks(const Json& json, const JsonPath& path, RankSet& out) {
  const auto* text = json.as<std::string>();
  if (!expect_kind(json, path, text != nullptr, "a string such as \"0-3,7\"")) return false;
  std::string wrong;
  auto set = parse_ranks(*text, world_size_, wrong);
  if (!set) return fail(path, wrong);
  out = *std::move(set);
  return true;
}

bool ScenarioReader::real(const Json& json, const JsonPath& path, double low, double high,
                          double& out) {
  const auto* integer = json.as<std::int64_t>();
  const auto* number = json.as<double>();
  if (!expect_kind(json, path, integer != nullptr || number != nullptr, "a number")) return false;
  out = integer != nullptr ? static_cast<double>(*integer) : *number;
  if (!(out >= low && out <= high))
    return fail(path, fmt::format("{} is out of range, which is {} to {}", out, low, high));
  return true;
}

bool ScenarioReader::integer_list(const Json& json, const JsonPath& path, std::int64_t low,
                                  std::vector<std::int64_t>& out) {
  const auto* list = array(json, path);
  if (list == nullptr) return false;
  if (list->size() > static_cast<std::size_t>(kMaxTable))
    return fail(path,
                fmt::format("{} numbers, where at most {} are possible", list->size(), kMaxTable));
  out.resize(list->size());
  for (std::size_t i = 0; i < list->size(); ++i)
    if (!integer((*list)[i], path.at(i), low, INT64_MAX, out[i])) return false;
  return true;
}

}  // namespace lockstep::worker::simulator
