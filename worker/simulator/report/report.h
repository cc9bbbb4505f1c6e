// Report of a dry run: one HTML file without outside resources (report/). Its size is bounded: a
// hundred calls of 131,072 ranks and a million calls of two give pages of similar length.
#pragma once

#include <string>
#include <vector>

#include <lockstep/worker/simulator/answers/recompile.h>
#include <lockstep/worker/simulator/answers/suggestion.h>
#include <lockstep/worker/simulator/answers/sweep.h>

namespace lockstep::worker::simulator {

/// A run, with answers to questions about it.
struct Report {
  std::string name;       // name of the scenario or record, as the user wrote it
  bool recorded = false;  // a replay of a record
  const DryRunResult& result;
  std::vector<std::string> frames;  // frame of each call
  Survey survey;
  std::vector<Recompile> recompiles;
  std::vector<Suggestion> suggestions;
  std::vector<RunVariant> variants{};  // ways compared; may be empty
  std::optional<Sweep> sweep{};
};

/// `scenario` holds the inputs of the calls of `result`; the result outlives the report.
[[nodiscard]] Report make_report(std::string name, bool recorded, const Scenario& scenario,
                                 const DryRunResult& result);

/// Verdict on top of the page: how often the job compiles, what would go wrong, what to do.
struct ReportVerdict {
  std::string mood;  // "ok", "warn", "bad"
  std::string word;
  std::vector<std::string> sentences;
};
[[nodiscard]] ReportVerdict report_verdict(const Report& report);

/// The data of the page, as JSON. Equal reports give equal bytes.
[[nodiscard]] std::string report_document(const Report& report);
/// The page.
[[nodiscard]] std::string report_page(const Report& report);

}  // namespace lockstep::worker::simulator
