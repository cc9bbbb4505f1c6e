// JSON in the form of dry-run results: on one line, with any bytes in names.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace lockstep::worker::simulator {

/// Invalid UTF-8 becomes U+FFFD.
[[nodiscard]] inline std::string json_text(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace lockstep::worker::simulator
