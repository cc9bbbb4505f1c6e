#include <nlohmann/json.hpp>

#include <lockstep/coordinator/documents/json_text.h>

namespace lockstep::coordinator {

std::string json_text(const nlohmann::ordered_json& json, int indent) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace lockstep::coordinator
