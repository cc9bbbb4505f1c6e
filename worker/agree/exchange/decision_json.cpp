#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/worker/agree/exchange/decision_json.h>

namespace lockstep::worker {
namespace {

using Json = nlohmann::ordered_json;

Json dim_json(const DimDecision& dim) {
  if (dim.is_symbol) return fmt::format("s{}", dim.symbol);
  return dim.value;
}

Json source_json(const SourceDecision& source) {
  if (source.spec.kind == Kind::Bool) return source.dims[0].value != 0;
  if (source.spec.kind == Kind::Int) return dim_json(source.dims[0]);
  Json dims = Json::array();
  for (const DimDecision& dim : source.dims) dims.push_back(dim_json(dim));
  return dims;
}

/// Bytes as {"hex": "…"}.
Json value_json(FieldType type, const FieldValue& value) {
  if (type == FieldType::Bool) return value.number != 0;
  if (type == FieldType::Int) return value.number;
  if (type == FieldType::Text || type == FieldType::Object) return value.bytes;
  std::string hex;
  for (const char c : value.bytes) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return {{"hex", hex}};
}

Json fields_of(const Decision& decision) {
  Json out = Json::object();
  for (const JoinedField& field : decision.fields) {
    Json values = Json::array();
    for (const FieldValue& value : field.values)
      values.push_back(value_json(field.spec.type, value));
    const bool many = field.spec.join == FieldJoin::Union;
    out[field.spec.name] = many ? std::move(values) : std::move(values[0]);
  }
  return out;
}

std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string fields_json(const Decision& decision) { return dumped(fields_of(decision)); }

std::string decision_json(const Decision& decision) {
  Json decisions = Json::object(), symbols = Json::object();
  for (const SourceDecision& source : decision.sources)
    if (source.spec.kind != Kind::Float) decisions[source.spec.name] = source_json(source);
  for (std::size_t i = 0; i < decision.symbols.size(); ++i) {
    const SymbolDecision& symbol = decision.symbols[i];
    symbols[fmt::format("s{}", i)] = {{"source", symbol.source},
                                      {"min", symbol.min ? Json(*symbol.min) : Json(nullptr)},
                                      {"hint", symbol.hint}};
  }
  Json whole{{"decisions", std::move(decisions)}, {"symbols", std::move(symbols)}};
  if (!decision.fields.empty()) whole["fields"] = fields_of(decision);
  return dumped(whole);
}

nlohmann::ordered_json guards_json(std::span<const shapes::Guard> guards,
                                   std::span<const GroupGuard> group_guards,
                                   const shapes::Namer& namer) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const shapes::Guard& guard : guards)
    out.push_back({{"text", guard.predicate.text()},
                   {"of", guard.predicate.text(namer)},
                   {"line", guard.where.text()}});
  for (const GroupGuard& guard : group_guards)
    out.push_back({{"text", guard.predicate.text()},
                   {"of", guard.predicate.text(namer)},
                   {"line", guard.where.text()},
                   {"over", guard.over == GroupGuard::Over::Any ? "any" : "all"},
                   {"value", guard.value}});
  return out;
}

}  // namespace lockstep::worker
