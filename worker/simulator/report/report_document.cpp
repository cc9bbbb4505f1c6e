// Data of a report's page.
#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <lockstep/coordinator/documents/page.h>
#include <lockstep/worker/simulator/input/call_inputs.h>
#include <lockstep/worker/simulator/report/report.h>
#include <lockstep/worker/simulator/report/report_parts.h>
#include <lockstep/worker/simulator/report/summary.h>

namespace lockstep::worker::simulator {
namespace {

using nlohmann::ordered_json;

// Greatest number of items of each kind on a page; further ones are only counted.
constexpr std::size_t kBins = 200, kRuns = 2000, kCompiles = 300, kDims = 1500, kErrors = 300,
                      kGroups = 40, kText = 600;

/// Cuts a longer text to at most `most` bytes, in whole characters, and appends " …".
std::string cut(std::string text, std::size_t most = kText) {
  if (text.size() <= most) return text;
  std::size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  text.resize(end);
  return text + " …";
}

ordered_json ranks_json(const TruncatedRankSet& ranks) {
  return {{"ranks", ranks.named().text()}, {"count", ranks.count()}};
}

ordered_json frame_json(const CallResult& call) {
  return call.frame ? ordered_json(*call.frame) : ordered_json(nullptr);
}

/// Number of calls with each outcome, in at most kBins bins of consecutive calls.
ordered_json bins_json(const DryRunResult& result) {
  const std::size_t count = result.calls.size();
  const std::size_t width = count == 0 ? 1 : (count - 1) / kBins + 1;
  ordered_json bins = ordered_json::array();
  for (std::size_t c = 0; c < count; ++c) {
    if (c % width == 0) bins.push_back({0, 0, 0, 0});
    auto& n = bins.back()[static_cast<std::size_t>(result.calls[c].outcome.kind)];
    n = n.get<std::size_t>() + 1;
  }
  return {{"calls_each", width},
          {"kinds", {"reused", "compiled", "fallback", "error"}},
          {"bins", std::move(bins)}};
}

ordered_json runs_json(const DryRunResult& result, std::size_t& left_out) {
  ordered_json out = ordered_json::array();
  for (const CallRun& run : call_runs(result)) {
    if (out.size() >= kRuns) {
      ++left_out;
      continue;
    }
    const CallResult& call = result.calls[run.first];
    std::string detail;
    if (call.outcome.error) detail = call.outcome.error->text();
    if (call.reported) detail = decision_text(*call.reported);
    out.push_back({{"first", run.first},
                   {"last", run.last},
                   {"frame", frame_json(call)},
                   {"outcome", outcome_name(call.outcome.kind)},
                   {"entries", fmt::format("{}", fmt::join(run.entries, ", "))},
                   {"detail", cut(std::move(detail))}});
  }
  return out;
}

ordered_json entries_json(const Report& report, std::size_t& left_out) {
  const DryRunResult& result = report.result;
  std::map<std::pair<std::string, int>, std::size_t> uses;
  for (std::size_t c = 0; c < result.calls.size(); ++c)
    if (result.calls[c].outcome.entry >= 0)
      ++uses[{report.frames[c], result.calls[c].outcome.entry}];
  ordered_json out = ordered_json::array();
  for (std::size_t c = 0; c < result.calls.size(); ++c) {
    const CallResult& call = result.calls[c];
    if (!call.reported) continue;
    if (out.size() >= kCompiles) {
      ++left_out;
      continue;
    }
    out.push_back({{"frame", report.frames[c]},
                   {"entry", call.outcome.entry},
                   {"call", c},
                   {"runs", uses[{report.frames[c], call.outcome.entry}]},
                   {"symbols", call.reported->symbols.size()},
                   {"decision", cut(decision_text(*call.reported))}});
  }
  return out;
}

ordered_json obstacles_json(const UnfitEntry& entry) {
  ordered_json out = ordered_json::array();
  for (const Obstacle& o : entry.obstacles)
    out.push_back({{"source", o.source},
                   {"needs", o.needs},
                   {"mark", o.mark},
                   {"least", o.least},
                   {"greatest", o.greatest},
                   {"on", ranks_json(o.ranks)},
                   {"text", o.text()}});
  return out;
}

ordered_json recompiles_json(const std::vector<Recompile>& recompiles, std::size_t& left_out) {
  ordered_json out = ordered_json::array();
  for (const Recompile& recompile : recompiles) {
    if (out.size() >= kCompiles) {
      ++left_out;
      continue;
    }
    ordered_json entries = ordered_json::array();
    for (const UnfitEntry& entry : recompile.entries)
      entries.push_back({{"entry", entry.entry},
                         {"on", ranks_json(entry.ranks)},
                         {"obstacles", obstacles_json(entry)},
                         {"left_out", entry.left_out}});
    out.push_back({{"call", recompile.call},
                   {"frame", recompile.frame},
                   {"entry", recompile.entry},
                   {"entries", std::move(entries)}});
  }
  return out;
}

/// For each frame and dim: true if the dim is a symbol in the frame's last entry that has the dim's
/// source.
std::map<std::pair<std::string, std::string>, bool> dynamic_dims(const Report& report) {
  std::map<std::pair<std::string, std::string>, bool> out;
  for (std::size_t c = 0; c < report.frames.size(); ++c) {
    const CallResult& call = report.result.calls[c];
    if (!call.reported) continue;
    for (const SourceDecision& source : call.reported->sources)
      for (std::size_t d = 0; d < source.dims.size(); ++d)
        out[{report.frames[c], source.spec.kind == Kind::Tensor ? size_text(source.spec.name, d)
                                                                : source.spec.name}] =
            source.dims[d].is_symbol;
  }
  return out;
}

/// Dims with the most values come first. If there are too many dims, the last ones are left out.
ordered_json dims_json(const Report& report, std::size_t& left_out) {
  std::vector<const SurveyedDim*> dims;
  for (const SurveyedDim& dim : report.survey.dims) dims.push_back(&dim);
  std::stable_sort(dims.begin(), dims.end(), [](const SurveyedDim* a, const SurveyedDim* b) {
    return a->distinct > b->distinct;
  });
  left_out = dims.size() > kDims ? dims.size() - kDims : 0;
  dims.resize(dims.size() - left_out);
  const auto dynamic = dynamic_dims(report);
  ordered_json out = ordered_json::array();
  for (const SurveyedDim* dim : dims) {
    const auto known = dynamic.find({dim->frame, dim->name()});
    out.push_back({{"frame", dim->frame},
                   {"name", dim->name()},
                   {"least", dim->least},
                   {"greatest", dim->greatest},
                   {"distinct", dim->distinct},
                   {"calls", dim->calls},
                   {"calls_apart", dim->calls_apart},
                   {"dynamic",
                    known == dynamic.end() ? ordered_json(nullptr) : ordered_json(known->second)}});
  }
  return out;
}

ordered_json errors_json(const DryRunResult& result, std::size_t& left_out) {
  ordered_json out = ordered_json::array();
  for (std::size_t c = 0; c < result.calls.size(); ++c) {
    const CallResult& call = result.calls[c];
    if (!call.outcome.error) continue;
    if (out.size() >= kErrors) {
      ++left_out;
      continue;
    }
    ordered_json groups = ordered_json::array();
    for (const RankValue& group : call.outcome.error->groups) {
      if (groups.size() == kGroups) break;
      TruncatedRankSet ranks;
      ranks.add(group.ranks);
      groups.push_back({{"on", ranks_json(ranks)}, {"value", cut(group.value, 200)}});
    }
    out.push_back({{"call", c},
                   {"frame", frame_json(call)},
                   {"code", code_name(call.outcome.error->code)},
                   {"source", call.outcome.error->source},
                   {"groups", std::move(groups)},
                   {"groups_all", call.outcome.error->groups.size()},
                   {"message", cut(call.outcome.error->message)}});
  }
  return out;
}

/// Waits of ranks, in bins of consecutive ranks: least, middle and greatest wait of each bin.
ordered_json waits_json(const Timing& timing) {
  const std::vector<std::int64_t>& wait = timing.ranks.wait_ns;
  const std::size_t width = wait.empty() ? 1 : (wait.size() - 1) / kBins + 1;
  ordered_json bins = ordered_json::array();
  for (std::size_t r = 0; r < wait.size(); r += width) {
    std::vector<std::int64_t> share(
        wait.begin() + static_cast<std::ptrdiff_t>(r),
        wait.begin() + static_cast<std::ptrdiff_t>(std::min(r + width, wait.size())));
    std::sort(share.begin(), share.end());
    bins.push_back({share.front(), share[share.size() / 2], share.back()});
  }
  return {{"ranks_each", width}, {"bins", std::move(bins)}, {"end_ns", timing.end_ns}};
}

ordered_json marks_json(const std::vector<Suggestion>& suggestions) {
  const MarkTexts texts = mark_texts(suggestions);
  std::size_t ints = 0;
  for (const Suggestion& s : suggestions) ints += s.dim ? 0 : 1;
  return {
      {"cpp", texts.cpp}, {"python", texts.python}, {"scenario", texts.scenario}, {"ints", ints}};
}

}  // namespace

Report make_report(std::string name, bool recorded, const Scenario& scenario,
                   const DryRunResult& result) {
  Report out{.name = std::move(name),
             .recorded = recorded,
             .result = result,
             .frames = {},
             .survey = survey(scenario),
             .recompiles = explain_compiles(scenario, result),
             .suggestions = {}};
  for (std::size_t c = 0; c < result.calls.size(); ++c)
    out.frames.push_back(frame_called(scenario, c));
  out.suggestions = suggest_marks(scenario, result, out.survey);
  return out;
}

std::string report_document(const Report& report) {
  const DryRunResult& result = report.result;
  const Totals sum = totals(result);
  const ReportVerdict verdict = report_verdict(report);
  ordered_json left = ordered_json::object();
  const auto bounded = [&](const char* key, auto make) {
    std::size_t left_out = 0;
    ordered_json out = make(left_out);
    left[key] = left_out;
    return out;
  };
  ordered_json out{
      {"format", "lockstep.report/1"},
      {"name", report.name},
      {"recorded", report.recorded},
      {"world_size", result.world_size},
      {"verdict",
       {{"mood", verdict.mood}, {"word", verdict.word}, {"sentences", verdict.sentences}}},
      {"totals",
       {{"calls", result.calls.size()},
        {"compiles", sum.compiles},
        {"reuses", sum.reuses},
        {"fallbacks", sum.fallbacks},
        {"errors", sum.errors},
        {"bytes_per_rank_max", result.bytes_per_rank_max},
        {"rounds", result.rounds}}},
      {"outcomes", bins_json(result)}};
  out["calls"] = bounded("calls", [&](std::size_t& n) { return runs_json(result, n); });
  out["entries"] = bounded("entries", [&](std::size_t& n) { return entries_json(report, n); });
  out["recompiles"] =
      bounded("recompiles", [&](std::size_t& n) { return recompiles_json(report.recompiles, n); });
  out["dims"] = bounded("dims", [&](std::size_t& n) { return dims_json(report, n); });
  out["dims_whole"] = report.survey.whole;
  out["errors"] = bounded("errors", [&](std::size_t& n) { return errors_json(result, n); });
  out["ways"] = ordered_json::parse(run_variants_json(report.variants));
  if (report.sweep)
    out["sweep"] = {{"parameter", sweep_name(report.sweep->of)},
                    {"rows", ordered_json::parse(sweep_rows_json(*report.sweep))}};
  if (result.faults)
    out["faults"] = {{"rows", ordered_json::parse(fault_rows_json(*result.faults))},
                     {"together", job_text(result.faults->job)}};
  if (result.timing) out["waits"] = waits_json(*result.timing);
  out["marks"] = marks_json(report.suggestions);
  out["marks"]["torch"] = "";
  if (result.advice && result.advice->torch)
    out["marks"]["torch"] = torch_lines(result.advice->dims);
  out["left_out"] = std::move(left);
  return out.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string report_page(const Report& report) {
  return coordinator::page_of({kReportFrame, kReportStyle, kReportScript}, report_document(report),
                              false);
}

}  // namespace lockstep::worker::simulator
