// JSON as text, as all documents of a coordinator are written.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace lockstep::coordinator {

/// `indent`: spaces for each level, or -1 for one line. Invalid UTF-8 becomes U+FFFD.
[[nodiscard]] std::string json_text(const nlohmann::ordered_json& json, int indent = -1);

}  // namespace lockstep::coordinator
