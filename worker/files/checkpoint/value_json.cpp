#include <lockstep/worker/files/checkpoint/value_json.h>

namespace lockstep::worker {

CheckedJson json_of(const SmallValue& value) {
  return {{"name", value.name},
          {"kind", value_kind_name(value.kind)},
          {"value", value.text},
          {"per_rank", value.per_rank}};
}

ValueKind value_kind_in(const CheckedJson& json) {
  const auto name = json.get<std::string>();
  for (const ValueKind kind :
       {ValueKind::Int, ValueKind::Float, ValueKind::Bool, ValueKind::Text, ValueKind::Key})
    if (value_kind_name(kind) == name) return kind;
  throw CheckedJson::type_error::create(302, "no kind of value", nullptr);
}

SmallValue value_in(const CheckedJson& json) {
  return {json.at("name").get<std::string>(), value_kind_in(json.at("kind")),
          json.at("value").get<std::string>(), json.at("per_rank").get<bool>()};
}

}  // namespace lockstep::worker
