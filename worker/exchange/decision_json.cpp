#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/worker/exchange/decision_json.h>

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

}  // namespace

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
  const Json whole{{"decisions", std::move(decisions)}, {"symbols", std::move(symbols)}};
  return whole.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace lockstep::worker
