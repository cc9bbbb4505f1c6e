#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/collectives/base/number_text.h>
#include <lockstep/worker/simulator/input/scenario_reader.h>

namespace lockstep::worker::simulator {
namespace {

/// Names in the order of FieldJoin.
constexpr std::array<std::string_view, kFieldJoins> kJoins{"equal", "min", "max", "union"};
/// The keys of values, in the order of FieldType.
constexpr std::array<std::string_view, kFieldTypes> kTypes{"bool", "int", "string", "hex",
                                                           "object"};

}  // namespace

bool ScenarioReader::read_user_fields(const Json& json, const JsonPath& path, ScenarioGroup& out) {
  if (object(json, path) == nullptr) return false;
  for (const auto& [name, content] : *json.as<Json::Object>()) {
    const JsonPath at = path.at(name);
    if (name.empty()) return fail(at, "a field has an empty name");
    if (out.values.count(name) != 0) return fail(at, "a value of this group has the same name");
    Field& field = out.fields.emplace_back();
    field.spec.name = name;
    if (!read_user_field(content, at, field)) return false;
  }
  sort_fields(out.fields);
  return true;
}

bool ScenarioReader::read_user_field(const Json& json, const JsonPath& path, Field& out) {
  if (object(json, path) == nullptr) return false;
  std::vector<std::string_view> types;
  for (const std::string_view type : kTypes)
    if (json.find(type) != nullptr) types.push_back(type);
  if (types.empty() && !known_keys(json, path, {"join", "bool", "int", "string", "hex", "object"}))
    return false;
  if (types.size() != 1)
    return fail(path,
                fmt::format("a field has one of {}; this one has {}", fmt::join(kTypes, ", "),
                            types.empty() ? "none" : fmt::format("{}", fmt::join(types, " and "))));
  if (!known_keys(json, path, {"join", types[0]})) return false;
  const Json* join = required(json, path, "join");
  std::size_t number = 0;
  if (join == nullptr || !choice(*join, path.at("join"), kJoins, number)) return false;
  out.spec.join = static_cast<FieldJoin>(number);
  const Json& content = *json.find(types[0]);
  const JsonPath at = path.at(types[0]);
  out.spec.type =
      static_cast<FieldType>(std::find(kTypes.begin(), kTypes.end(), types[0]) - kTypes.begin());
  if (out.spec.type == FieldType::Int)
    return integer(content, at, INT64_MIN, INT64_MAX, out.value.number);
  if (out.spec.type == FieldType::Bool) {
    bool flag = false;
    if (!boolean(content, at, flag)) return false;
    out.value.number = flag ? 1 : 0;
    return true;
  }
  const bool hex = out.spec.type == FieldType::Bytes;
  if (!(hex ? read_hex(content, at, out.value.bytes) : text(content, at, out.value.bytes)))
    return false;
  if (out.spec.type == FieldType::Object && out.spec.join != FieldJoin::Equal)
    return fail(path.at("join"), "objects are compared; their join is equal");
  const std::size_t count = out.value.bytes.size();
  return count <= kMostFieldBytes ||
         fail(at, fmt::format("{} bytes, where at most {} are possible", count, kMostFieldBytes));
}

bool ScenarioReader::read_hex(const Json& json, const JsonPath& path, std::string& out) {
  std::string digits;
  if (!text(json, path, digits)) return false;
  const auto bytes = bytes_of_hex(digits);
  if (!bytes) return fail(path, "expected pairs of hexadecimal digits, such as \"00ff\"");
  for (const std::byte byte : *bytes) out += static_cast<char>(byte);
  return true;
}

}  // namespace lockstep::worker::simulator
