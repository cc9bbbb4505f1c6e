#include <limits>
#include <string>

#include "handle.h"
#include <fmt/format.h>

#include <lockstep/worker/agree/exchange/decision_json.h>

using namespace lockstep;
using namespace lockstep::capi;
using worker::Decision;
using worker::Kind;
using worker::SourceDecision;
using worker::SymbolDecision;

namespace {

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
    : decision(std::move(what)),
      text(worker::decision_text(decision)),
      json(worker::decision_json(decision)) {}

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
