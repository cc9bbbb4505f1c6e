#include <limits>
#include <string>

#include "handle.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

using namespace lockstep;
using namespace lockstep::capi;
using worker::Decision;
using worker::DimDecision;
using worker::Kind;
using worker::SourceDecision;
using worker::SymbolDecision;

namespace {

using Json = nlohmann::ordered_json;

Json dim_json(const DimDecision& dim) {
  if (dim.is_symbol) return "s" + std::to_string(dim.symbol);
  return dim.value;
}

/// In the manner of the dry-run result (simulator/cluster/result.md).
std::string json_text(const Decision& decision) {
  Json decisions = Json::object(), symbols = Json::object();
  for (const SourceDecision& source : decision.sources) {
    if (source.spec.kind == Kind::Float) continue;
    Json& at = decisions[source.spec.name];
    if (source.spec.kind == Kind::Bool) {
      at = source.dims[0].value != 0;
    } else if (source.spec.kind == Kind::Int) {
      at = dim_json(source.dims[0]);
    } else {
      at = Json::array();
      for (const DimDecision& dim : source.dims) at.push_back(dim_json(dim));
    }
  }
  for (size_t i = 0; i < decision.symbols.size(); ++i) {
    const SymbolDecision& symbol = decision.symbols[i];
    symbols["s" + std::to_string(i)] = {{"source", symbol.source},
                                        {"min", symbol.min ? Json(*symbol.min) : Json(nullptr)},
                                        {"hint", symbol.hint}};
  }
  const Json whole{{"decisions", std::move(decisions)}, {"symbols", std::move(symbols)}};
  return whole.dump(-1, ' ', false, Json::error_handler_t::replace);
}

const SourceDecision* source_of(const lockstep_decision* decision, size_t source) {
  if (decision == nullptr || source >= decision->decision.sources.size()) return nullptr;
  return &decision->decision.sources[source];
}

const SymbolDecision* symbol_of(const lockstep_decision* decision, size_t symbol) {
  if (decision == nullptr || symbol >= decision->decision.symbols.size()) return nullptr;
  return &decision->decision.symbols[symbol];
}

}  // namespace

lockstep_decision::lockstep_decision(Decision what)
    : decision(std::move(what)), text(worker::decision_text(decision)), json(json_text(decision)) {}

extern "C" {

size_t lockstep_decision_sources(const lockstep_decision* decision) {
  return decision == nullptr ? 0 : decision->decision.sources.size();
}

const char* lockstep_decision_name(const lockstep_decision* decision, size_t source) {
  const SourceDecision* found = source_of(decision, source);
  return found == nullptr ? nullptr : found->spec.name.c_str();
}

int lockstep_decision_kind(const lockstep_decision* decision, size_t source) {
  const SourceDecision* found = source_of(decision, source);
  return found == nullptr ? -1 : static_cast<int>(found->spec.kind);
}

int lockstep_decision_dtype(const lockstep_decision* decision, size_t source) {
  const SourceDecision* found = source_of(decision, source);
  if (found == nullptr || found->spec.kind != Kind::Tensor) return -1;
  return static_cast<int>(found->spec.dtype);
}

size_t lockstep_decision_dims(const lockstep_decision* decision, size_t source) {
  const SourceDecision* found = source_of(decision, source);
  return found == nullptr ? 0 : found->dims.size();
}

int lockstep_decision_dim(const lockstep_decision* decision, size_t source, size_t dim,
                          int* is_symbol, int64_t* value) {
  return guarded([&]() -> Result<void> {
    const SourceDecision* found = source_of(decision, source);
    if (found == nullptr || dim >= found->dims.size())
      return bad_input(fmt::format("the decision has no dim {} of a source {}", dim, source));
    if (is_symbol == nullptr || value == nullptr)
      return bad_input("is_symbol or value is NULL; give the addresses of both");
    *is_symbol = found->dims[dim].is_symbol ? 1 : 0;
    *value =
        found->dims[dim].is_symbol ? std::int64_t{found->dims[dim].symbol} : found->dims[dim].value;
    return {};
  });
}

size_t lockstep_decision_symbols(const lockstep_decision* decision) {
  return decision == nullptr ? 0 : decision->decision.symbols.size();
}

const char* lockstep_decision_symbol_source(const lockstep_decision* decision, size_t symbol) {
  const SymbolDecision* found = symbol_of(decision, symbol);
  return found == nullptr ? nullptr : found->source.c_str();
}

int lockstep_decision_symbol(const lockstep_decision* decision, size_t symbol, int64_t* min,
                             int64_t* hint, int* unbacked) {
  return guarded([&]() -> Result<void> {
    const SymbolDecision* found = symbol_of(decision, symbol);
    if (found == nullptr) return bad_input(fmt::format("the decision has no symbol {}", symbol));
    if (min != nullptr) *min = found->min.value_or(std::numeric_limits<std::int64_t>::min());
    if (hint != nullptr) *hint = found->hint;
    if (unbacked != nullptr) *unbacked = found->unbacked ? 1 : 0;
    return {};
  });
}

const char* lockstep_decision_text(const lockstep_decision* decision) {
  return decision == nullptr ? "" : decision->text.c_str();
}

const char* lockstep_decision_json(const lockstep_decision* decision) {
  return decision == nullptr ? "" : decision->json.c_str();
}

}  // extern "C"
