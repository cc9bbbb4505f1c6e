#include <map>

#include <nlohmann/json.hpp>

#include <lockstep/collectives/base/number_text.h>
#include <lockstep/worker/agree/exchange/decision_json.h>
#include <lockstep/worker/simulator/cluster/cost_report.h>
#include <lockstep/worker/simulator/cluster/json_text.h>
#include <lockstep/worker/simulator/cluster/result.h>

namespace lockstep::worker::simulator {
namespace {

using nlohmann::ordered_json;

ordered_json dim_json(const DimDecision& dim) {
  if (dim.is_symbol) return "s" + std::to_string(dim.symbol);
  return dim.value;
}

/// Floats are runtime values and do not appear.
ordered_json decisions_json(const Decision& decision) {
  ordered_json out = ordered_json::object();
  for (const SourceDecision& source : decision.sources) {
    ordered_json& at = source.spec.kind == Kind::Float ? out : out[source.spec.name];
    switch (source.spec.kind) {
      case Kind::Float:
        break;
      case Kind::Bool:
        at = source.dims[0].value != 0;
        break;
      case Kind::Int:
        at = dim_json(source.dims[0]);
        break;
      case Kind::Tensor:
        at = ordered_json::array();
        for (const DimDecision& dim : source.dims) at.push_back(dim_json(dim));
    }
  }
  return out;
}

ordered_json symbols_json(const Decision& decision) {
  ordered_json out = ordered_json::object();
  for (std::size_t i = 0; i < decision.symbols.size(); ++i) {
    const SymbolDecision& symbol = decision.symbols[i];
    ordered_json& at = out["s" + std::to_string(i)];
    at["source"] = symbol.source;
    at["min"] = symbol.min ? ordered_json(*symbol.min) : ordered_json(nullptr);
    at["hint"] = symbol.hint;
  }
  return out;
}

/// Returns a value of an error's rank table as JSON: sizes, ndims and ints are numbers, bools are
/// bools, no mark is null.
ordered_json value_json(Code code, const std::string& text) {
  switch (code) {
    case Code::NdimMismatch:
    case Code::ConstraintViolation:
    case Code::ConstantMismatch: {
      if (text == "true" || text == "false") return text == "true";
      if (const auto number = number_in<std::int64_t>(text)) return *number;
      return text;
    }
    case Code::MarkConflict:
      return text.empty() ? ordered_json(nullptr) : ordered_json(text);
    default:
      return text;
  }
}

ordered_json error_json(const Status& error) {
  ordered_json out;
  out["code"] = code_name(error.code);
  out["source"] = error.source.empty() ? ordered_json(nullptr) : ordered_json(error.source);
  out["groups"] = ordered_json::array();
  for (const RankValue& group : error.groups)
    out["groups"].push_back(
        {{"ranks", group.ranks.text()}, {"value", value_json(error.code, group.value)}});
  out["message"] = error.message;
  return out;
}

ordered_json call_json(std::size_t index, const CallResult& call) {
  ordered_json out;
  out["call"] = index;
  out["frame"] = call.frame ? ordered_json(*call.frame) : ordered_json(nullptr);
  out["outcome"] = outcome_name(call.outcome.kind);
  if (call.outcome.entry >= 0) out["entry"] = call.outcome.entry;
  if (call.reported) {
    out["decisions"] = decisions_json(*call.reported);
    out["symbols"] = symbols_json(*call.reported);
    if (!call.reported->fields.empty())
      out["fields"] = ordered_json::parse(fields_json(*call.reported));
  }
  if (call.outcome.error) out["error"] = error_json(*call.outcome.error);
  return out;
}

/// Returns null if the counterfactual was left out.
ordered_json uncoordinated_json(const std::optional<Uncoordinated>& alone) {
  if (!alone) return nullptr;
  return {{"compiles_per_rank_max", alone->compiles_per_rank_max},
          {"first_divergent_call",
           alone->first_divergent_call ? ordered_json(*alone->first_divergent_call) : nullptr},
          {"distinct_graphs_max", alone->distinct_graphs_max}};
}

}  // namespace

std::string_view outcome_name(CallOutcome::Kind kind) {
  switch (kind) {
    case CallOutcome::Kind::Reused:
      return "reused";
    case CallOutcome::Kind::Compiled:
      return "compiled";
    case CallOutcome::Kind::Fallback:
      return "fallback";
    case CallOutcome::Kind::Error:
      return "error";
  }
  return "error";
}

shapes::Fingerprint program_of(Decision decision) {
  for (SymbolDecision& symbol : decision.symbols) symbol.pinned_is_error = false;
  return decision.digest();
}

std::vector<OwnDecision> own_decisions(const HeldDecisions& held) {
  std::vector<OwnDecision> out;
  std::map<shapes::Fingerprint, std::size_t> known;
  for (const auto& [ranks, decision] : held) {
    const auto [at, fresh] = known.try_emplace(program_of(*decision), out.size());
    if (fresh) out.push_back({{}, *decision});
    out[at->second].ranks.insert(ranks);
  }
  return out;
}

Totals totals(const DryRunResult& result) {
  Totals out;
  for (const CallResult& call : result.calls) {
    switch (call.outcome.kind) {
      case CallOutcome::Kind::Reused:
        ++out.reuses;
        break;
      case CallOutcome::Kind::Compiled:
        ++out.compiles;
        break;
      case CallOutcome::Kind::Fallback:
        ++out.fallbacks;
        break;
      case CallOutcome::Kind::Error:
        ++out.errors;
        break;
    }
  }
  return out;
}

std::string result_json(const DryRunResult& result) {
  std::string out =
      "{\"format\": \"lockstep.dryrun/1\", \"world_size\": " + std::to_string(result.world_size) +
      ",\n \"calls\": [";
  for (std::size_t i = 0; i < result.calls.size(); ++i)
    out += (i == 0 ? "\n  " : ",\n  ") + json_text(call_json(i, result.calls[i]));
  const Totals sum = totals(result);
  const ordered_json totals{{"compiles", sum.compiles},
                            {"reuses", sum.reuses},
                            {"fallbacks", sum.fallbacks},
                            {"errors", sum.errors},
                            {"bytes_per_rank_max", result.bytes_per_rank_max},
                            {"rounds", result.rounds}};
  out += "],\n \"totals\": " + json_text(totals) +
         ",\n \"uncoordinated\": " + json_text(uncoordinated_json(result.uncoordinated));
  if (!result.compare.empty()) out += ",\n \"compare\": " + run_variants_json(result.compare);
  if (result.drawn) out += ",\n \"drawn\": " + drawn_json(*result.drawn);
  if (result.advice) out += ",\n \"advice\": " + advice_json(*result.advice);
  if (result.timing) out += ",\n \"cost\": " + cost_json(result);
  if (result.faults) out += ",\n \"faults\": " + fault_json(*result.faults);
  out += "}\n";
  return out;
}

}  // namespace lockstep::worker::simulator
