// JSON of files that may be damaged. For .cpp files of this room only.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace lockstep::worker {

using CheckedJson = nlohmann::ordered_json;

/// Returns nullopt if `text` is not JSON, or is nested deeper than 16 levels.
[[nodiscard]] inline std::optional<CheckedJson> checked_json(std::string_view text) {
  bool deep = false;
  const auto event = [&](int depth, CheckedJson::parse_event_t, CheckedJson&) {
    deep = deep || depth > 16;
    return !deep;
  };
  CheckedJson json = CheckedJson::parse(text.begin(), text.end(), event, false);
  if (deep || json.is_discarded()) return std::nullopt;
  return json;
}

/// Returns a whole number, zero or more. Throws CheckedJson::exception for anything else.
[[nodiscard]] inline std::int64_t whole_in(const CheckedJson& json) {
  if (!json.is_number_unsigned() || json.get<std::uint64_t>() > INT64_MAX)
    throw CheckedJson::type_error::create(302, "no whole number", nullptr);
  return json.get<std::int64_t>();
}
/// Returns a list of whole numbers. Throws as whole_in().
[[nodiscard]] inline std::vector<std::int64_t> wholes_in(const CheckedJson& json) {
  if (!json.is_array()) throw CheckedJson::type_error::create(302, "no list", nullptr);
  std::vector<std::int64_t> out;
  for (const CheckedJson& one : json) out.push_back(whole_in(one));
  return out;
}

}  // namespace lockstep::worker
