// Sentences on top of a report.
#include <algorithm>

#include <fmt/format.h>

#include <lockstep/worker/simulator/report/report.h>

namespace lockstep::worker::simulator {
namespace {

std::string count_of(std::size_t n, std::string_view one, std::string_view many) {
  return n == 0 ? fmt::format("no {}", many) : fmt::format("{} {}", n, n == 1 ? one : many);
}

std::string settling(const DryRunResult& result, const Totals& sum) {
  if (sum.compiles == 0) return {};
  std::size_t last = 0;
  for (std::size_t c = 0; c < result.calls.size(); ++c)
    if (result.calls[c].outcome.kind == CallOutcome::Kind::Compiled) last = c;
  if (last + 1 == result.calls.size()) return "The last call still compiles.";
  return fmt::format("Nothing compiles after call {}.", last);
}

std::string errors_text(const DryRunResult& result, const Totals& sum) {
  if (sum.errors == 0) return {};
  const auto first = std::find_if(
      result.calls.begin(), result.calls.end(),
      [](const CallResult& call) { return call.outcome.kind == CallOutcome::Kind::Error; });
  return fmt::format("{} in an error that all ranks get; the first is {} in call {}: {}.",
                     sum.errors == 1 ? "One call ends" : fmt::format("{} calls end", sum.errors),
                     code_name(first->outcome.error->code), first - result.calls.begin(),
                     first->outcome.error->message);
}

std::string alone(const DryRunResult& result) {
  if (!result.uncoordinated) return {};
  const Uncoordinated& ranks = *result.uncoordinated;
  if (!ranks.first_divergent_call)
    return fmt::format(
        "Without coordination ranks would not part ways ({} on a rank at most).",
        count_of(static_cast<std::size_t>(ranks.compiles_per_rank_max), "compile", "compiles"));
  return fmt::format(
      "Without coordination ranks would part ways at call {}: up to {} on a rank, up to {} "
      "different graphs in one call.",
      *ranks.first_divergent_call,
      count_of(static_cast<std::size_t>(ranks.compiles_per_rank_max), "compile", "compiles"),
      ranks.distinct_graphs_max);
}

std::string advice(const std::vector<Suggestion>& suggestions,
                   const std::vector<RunVariant>& variants, std::size_t compiles) {
  constexpr std::size_t kNamed = 4;
  std::string names;
  std::size_t marks = 0;
  for (const Suggestion& s : suggestions) {
    if (!s.dim || ++marks > kNamed) continue;
    names += (names.empty() ? "" : ", ") + size_text(s.source, *s.dim);
  }
  if (marks == 0) return {};
  if (marks > kNamed) names += fmt::format(" and {} more", marks - kNamed);
  if (!variants.empty() && variants.back().name == "lockstep_marked")
    return variants.back().compiles >= compiles
               ? std::string()
               : fmt::format("Mark {} dynamic: the job then has {} instead of {}.", names,
                             count_of(variants.back().compiles, "compile", "compiles"), compiles);
  return fmt::format("Mark {} dynamic: recompiles made {} so.", names, marks == 1 ? "it" : "them");
}

std::string faulty(const FaultReport& faults) {
  const auto ends =
      std::count_if(faults.alone.begin(), faults.alone.end(),
                    [](const FaultReport::Alone& alone) { return alone.job.ends; });
  return fmt::format("Of {} each by itself {} the job; with all of them it {}.",
                     count_of(faults.alone.size(), "fault", "faults"),
                     ends == 0   ? "none ends"
                     : ends == 1 ? "one ends"
                                 : fmt::format("{} end", ends),
                     job_text(faults.job));
}

}  // namespace

ReportVerdict report_verdict(const Report& report) {
  const Totals sum = totals(report.result);
  ReportVerdict out;
  const auto& faults = report.result.faults;
  const bool warns = sum.fallbacks > 0 || (faults && faults->job.ends);
  out.mood = sum.errors > 0 ? "bad" : warns ? "warn" : "ok";
  out.word = fmt::format("{} in {}", count_of(sum.compiles, "compile", "compiles"),
                         count_of(report.result.calls.size(), "call", "calls"));
  if (sum.fallbacks > 0)
    out.word += fmt::format(", {}", count_of(sum.fallbacks, "fallback", "fallbacks"));
  out.word += fmt::format(", {}", count_of(sum.errors, "error", "errors"));
  for (std::string sentence :
       {errors_text(report.result, sum), faults ? faulty(*faults) : std::string(),
        settling(report.result, sum), alone(report.result),
        advice(report.suggestions, report.variants, sum.compiles)})
    if (!sentence.empty()) out.sentences.push_back(std::move(sentence));
  return out;
}

}  // namespace lockstep::worker::simulator
