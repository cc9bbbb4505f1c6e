#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/worker/simulator/cluster/cost_report.h>
#include <lockstep/worker/simulator/draw/json_document.h>
#include <lockstep/worker/simulator/report/summary.h>

namespace lockstep::worker::simulator {
namespace {

std::string_view colour_of(CallOutcome::Kind kind) {
  switch (kind) {
    case CallOutcome::Kind::Reused:
      return "\033[32m";
    case CallOutcome::Kind::Compiled:
      return "\033[36m";
    case CallOutcome::Kind::Fallback:
      return "\033[33m";
    case CallOutcome::Kind::Error:
      return "\033[31m";
  }
  return "";
}

std::string frame_text(const CallResult& call) {
  if (!call.frame) return "-";
  const std::string text = in_quotes(*call.frame);
  return text.substr(1, text.size() - 2);
}

constexpr std::size_t kManySources = 8;
constexpr std::size_t kShown = 16;  // most inputs, and most symbols, in one line

bool has_symbol(const SourceDecision& source) {
  return std::any_of(source.dims.begin(), source.dims.end(),
                     [](const DimDecision& dim) { return dim.is_symbol; });
}

/// Text such as "tokens [s0, 10], n 3, training true", then the symbols. A decision with many
/// sources shows only sources with symbols, and only the first of these.
std::string decision_line(const Decision& decision) {
  std::vector<std::string> parts;
  std::size_t left_out = 0, more = 0;
  for (const SourceDecision& source : decision.sources) {
    if (decision.sources.size() > kManySources && !has_symbol(source)) {
      ++left_out;
      continue;
    }
    if (parts.size() == kShown) {
      ++more;
      continue;
    }
    std::vector<std::string> dims;
    for (const DimDecision& dim : source.dims)
      dims.push_back(dim.is_symbol ? fmt::format("s{}", dim.symbol) : std::to_string(dim.value));
    const std::string name = in_quotes(source.spec.name);
    std::string value = fmt::format("{}", fmt::join(dims, ", "));
    if (source.spec.kind == Kind::Float) value = "float";
    if (source.spec.kind == Kind::Tensor) value = "[" + value + "]";
    if (source.spec.kind == Kind::Bool) value = source.dims[0].value != 0 ? "true" : "false";
    parts.push_back(fmt::format("{} {}", name.substr(1, name.size() - 2), value));
  }
  if (more > 0) parts.push_back(fmt::format("{} more inputs", more));
  if (left_out > 0) parts.push_back(fmt::format("{} inputs without symbols", left_out));
  const std::size_t shown = std::min(decision.symbols.size(), kShown);
  for (std::size_t i = 0; i < shown; ++i) {
    const SymbolDecision& symbol = decision.symbols[i];
    const std::string least = symbol.min ? fmt::format(" >= {}", *symbol.min) : std::string();
    parts.push_back(fmt::format("s{}{} (hint {})", i, least, symbol.hint));
  }
  if (decision.symbols.size() > shown)
    parts.push_back(fmt::format("{} more symbols", decision.symbols.size() - shown));
  for (const JoinedField& field : decision.fields) {
    const std::string name = in_quotes(field.spec.name);
    parts.push_back(fmt::format("{} {}", name.substr(1, name.size() - 2), joined_text(field)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string detail_of(const CallResult& call) {
  if (call.outcome.error) return call.outcome.error->text();
  if (call.reported) return decision_line(*call.reported);
  if (call.outcome.kind == CallOutcome::Kind::Fallback)
    return "recompile limit reached on all ranks";
  return {};
}

/// True for calls that can share a line: reuses of one frame, with any entries, or equal outcomes
/// of another kind.
bool alike(const CallResult& a, const CallResult& b) {
  if (a.frame != b.frame || a.outcome.kind != b.outcome.kind || a.reported || b.reported)
    return false;
  return a.outcome.kind == CallOutcome::Kind::Reused || a.outcome.error == b.outcome.error;
}

std::string alone_text(const Uncoordinated& alone) {
  const std::string out = fmt::format(
      "uncoordinated  up to {} compiles on a rank, up to {} different graphs in one call",
      alone.compiles_per_rank_max, alone.distinct_graphs_max);
  return out + (alone.first_divergent_call ? fmt::format("; ranks first part ways at call {}\n",
                                                         *alone.first_divergent_call)
                                           : std::string("; ranks never part ways\n"));
}

/// A line per frame: its compiles, calls, fallbacks and errors.
std::string frames_text(const DryRunResult& result) {
  struct Frame {
    std::size_t calls = 0, compiles = 0, fallbacks = 0, errors = 0, last = 0;
  };
  std::map<std::string, Frame> frames;
  for (std::size_t c = 0; c < result.calls.size(); ++c) {
    const CallOutcome::Kind kind = result.calls[c].outcome.kind;
    Frame& frame = frames[frame_text(result.calls[c])];
    ++frame.calls;
    frame.fallbacks += kind == CallOutcome::Kind::Fallback ? 1 : 0;
    frame.errors += kind == CallOutcome::Kind::Error ? 1 : 0;
    if (kind != CallOutcome::Kind::Compiled) continue;
    ++frame.compiles;
    frame.last = c;
  }
  std::string out;
  for (const auto& [name, frame] : frames) {
    const auto counted = [](std::size_t n, std::string_view one) {
      return fmt::format("{} {}{}", n, one, n == 1 ? "" : "s");
    };
    out += fmt::format("{:<13}{}: {} in {}", out.empty() ? "frames" : "", name,
                       counted(frame.compiles, "compile"), counted(frame.calls, "call"));
    if (frame.compiles > 0) out += fmt::format(", the last in call {}", frame.last);
    if (frame.fallbacks > 0) out += ", " + counted(frame.fallbacks, "fallback");
    if (frame.errors > 0) out += ", " + counted(frame.errors, "error");
    out += '\n';
  }
  return out;
}

}  // namespace

std::string CallRun::calls() const {
  return last > first ? fmt::format("{}-{}", first, last) : std::to_string(first);
}

std::vector<CallRun> call_runs(const DryRunResult& result) {
  std::vector<CallRun> out;
  for (std::size_t i = 0; i < result.calls.size(); ++i) {
    const CallResult& call = result.calls[i];
    if (out.empty() || !alike(result.calls[out.back().first], call)) out.push_back({i, i, {}});
    out.back().last = i;
    if (call.outcome.entry >= 0) out.back().entries.insert(call.outcome.entry);
  }
  return out;
}

std::string result_summary(const DryRunResult& result, bool colour) {
  std::string out = fmt::format("{} ranks, {} calls\n\n", result.world_size, result.calls.size());
  std::size_t width = 5;
  for (const CallResult& call : result.calls) width = std::max(width, frame_text(call).size());
  if (!result.calls.empty())
    out += fmt::format("{:<11} {:<{}} {:<9} {:<5} {}\n", "call", "frame", width, "outcome", "entry",
                       "detail");
  for (const CallRun& run : call_runs(result)) {
    const CallResult& call = result.calls[run.first];
    out += fmt::format("{:<11} {:<{}} {}{:<9}{} {:<5} {}\n", run.calls(), frame_text(call), width,
                       colour ? colour_of(call.outcome.kind) : "", outcome_name(call.outcome.kind),
                       colour ? "\033[0m" : "", fmt::format("{}", fmt::join(run.entries, ", ")),
                       detail_of(call));
  }
  const Totals sum = totals(result);
  out += fmt::format(
      "\ntogether     {} compiles, {} reuses, {} fallbacks, {} errors; {} rounds, at most {} bytes "
      "received by a rank\n",
      sum.compiles, sum.reuses, sum.fallbacks, sum.errors, result.rounds,
      result.bytes_per_rank_max);
  if (result.drawn) out += frames_text(result) + drawn_summary(*result.drawn);
  if (result.advice) out += advice_summary(*result.advice);
  if (result.timing) out += cost_summary(result);
  if (!result.compare.empty())
    out += run_variants_table(result.compare);
  else if (result.uncoordinated)
    out += alone_text(*result.uncoordinated);
  if (result.faults) out += fault_summary(*result.faults);
  return out;
}

}  // namespace lockstep::worker::simulator
