#include <array>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/collectives/base/number_text.h>
#include <lockstep/worker/simulator/input/scenario_reader.h>

namespace lockstep::worker::simulator {
namespace {

/// Names in the order of Mark, without None.
constexpr std::array<std::string_view, 5> kMarks{"dynamic", "maybe_dynamic", "unbacked", "static",
                                                 "uniform"};
/// Names in the order of DType.
constexpr std::array<std::string_view, 10> kDtypes{"bool", "u8",  "i8",   "i16", "i32",
                                                   "i64",  "f16", "bf16", "f32", "f64"};

}  // namespace

bool ScenarioReader::read_values(const Json& json, const JsonPath& path,
                                 std::map<std::string, ScenarioValue>& out) {
  if (object(json, path) == nullptr) return false;
  for (const auto& [source, value] : *json.as<Json::Object>()) {
    const JsonPath at = path.at(source);
    if (source.empty()) return fail(at, "a source has an empty name");
    if (!read_value(value, at, out[source])) return false;
  }
  return true;
}

bool ScenarioReader::read_value(const Json& json, const JsonPath& path, ScenarioValue& out) {
  if (object(json, path) == nullptr) return false;
  std::vector<std::string_view> kinds;
  for (const std::string_view kind : {"tensor", "int", "float", "bool"})
    if (json.find(kind) != nullptr) kinds.push_back(kind);
  if (kinds.empty()) {
    if (!known_keys(json, path, {"tensor", "int", "float", "bool"})) return false;
    return fail(path, "a value has one of tensor, int, float, bool; this one has none");
  }
  if (kinds.size() > 1)
    return fail(path, fmt::format("a value has one of tensor, int, float, bool; this one has {}",
                                  fmt::join(kinds, " and ")));
  const Json& content = *json.find(kinds[0]);
  const JsonPath at = path.at(kinds[0]);
  if (kinds[0] == "tensor") return read_tensor(json, path, out);
  if (!known_keys(json, path, {kinds[0]})) return false;
  if (kinds[0] == "int") {
    out.kind = Kind::Int;
    return integer(content, at, INT64_MIN, INT64_MAX, out.number);
  }
  if (kinds[0] == "bool") {
    bool flag = false;
    if (!boolean(content, at, flag)) return false;
    out.kind = Kind::Bool;
    out.number = flag ? 1 : 0;
    return true;
  }
  out.kind = Kind::Float;
  if (const auto* i = content.as<std::int64_t>())
    out.real = static_cast<double>(*i);
  else if (const auto* huge = content.as<Json::HugeInteger>())
    out.real = huge->value;
  else if (const auto* real = content.as<double>())
    out.real = *real;
  else
    return expect_kind(content, at, false, "a number");
  return std::isfinite(out.real) || fail(at, "this number is not finite");
}

bool ScenarioReader::read_tensor(const Json& json, const JsonPath& path, ScenarioValue& out) {
  if (!known_keys(json, path, {"tensor", "dtype", "strides", "marks"})) return false;
  out.kind = Kind::Tensor;
  if (!integers(*json.find("tensor"), path.at("tensor"), out.sizes)) return false;
  if (const Json* dtype = json.find("dtype")) {
    std::size_t number = 0;
    if (!choice(*dtype, path.at("dtype"), kDtypes, number)) return false;
    out.dtype = static_cast<DType>(number);
  }
  if (const Json* strides = json.find("strides")) {
    if (!integers(*strides, path.at("strides"), out.strides)) return false;
    if (out.strides.size() != out.sizes.size())
      return fail(path.at("strides"),
                  fmt::format("{} strides for {} dims", out.strides.size(), out.sizes.size()));
  }
  if (const Json* marks = json.find("marks")) return read_marks(*marks, path.at("marks"), out);
  return true;
}

bool ScenarioReader::read_marks(const Json& json, const JsonPath& path, ScenarioValue& out) {
  if (object(json, path) == nullptr) return false;
  for (const auto& [key, value] : *json.as<Json::Object>()) {
    const JsonPath at = path.at(key);
    const auto dim =
        key.size() == 1 || !key.starts_with('0') ? number_in<std::size_t>(key) : std::nullopt;
    if (!dim || *dim >= out.sizes.size())
      return fail(at, out.sizes.empty()
                          ? std::string("a tensor of 0 dims has no dim to mark")
                          : fmt::format("{} is not a dim of this tensor, which are \"0\" to \"{}\"",
                                        in_quotes(key), out.sizes.size() - 1));
    out.marks.resize(out.sizes.size(), Mark::None);
    std::size_t number = 0;
    if (!choice(value, at, kMarks, number)) return false;
    out.marks[*dim] = static_cast<Mark>(number + 1);
  }
  return true;
}

}  // namespace lockstep::worker::simulator
