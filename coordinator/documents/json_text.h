// JSON as text, as all documents of a coordinator spell it.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace lockstep::coordinator {

/// `indent` is the number of spaces for each level; -1: all on one line. Invalid UTF-8 becomes
/// U+FFFD.
[[nodiscard]] std::string json_text(const nlohmann::ordered_json& json, int indent = -1);

}  // namespace lockstep::coordinator
