#include <algorithm>

#include <lockstep/worker/simulator/input/known_traces.h>

namespace lockstep::worker::simulator {
namespace {

/// True if the guards hold for the decision's hints. A guard that hints do not decide counts as
/// true.
bool taken_by(const Decision& decision, const TraceReport& report) {
  const std::vector<shapes::Symbol> symbols = decision.trace_symbols();
  const auto hint_of = [&](shapes::Symbol symbol) -> std::optional<std::int64_t> {
    const auto at = std::ranges::find(symbols, symbol);
    if (at == symbols.end()) return std::nullopt;
    return decision.symbols[static_cast<std::size_t>(at - symbols.begin())].hint;
  };
  return std::ranges::all_of(report.guards, [&](const shapes::Guard& guard) {
    return guard.predicate.evaluate(hint_of).value_or(true);
  });
}

/// Digest of what a trace depends on. The caller's wish that symbols stay dynamic is not part of
/// it.
shapes::Fingerprint traced_as(Decision decision) {
  for (SymbolDecision& symbol : decision.symbols) symbol.pinned_is_error = false;
  return decision.digest();
}

bool same_conditions(const TraceReport& a, const TraceReport& b) {
  return a.graph == b.graph && a.failure.has_value() == b.failure.has_value() &&
         std::ranges::equal(a.guards, b.guards, {}, &shapes::Guard::predicate,
                            &shapes::Guard::predicate);
}

}  // namespace

void KnownTraces::add(const std::string& frame, const Decision& decision,
                      const TraceReport& report) {
  // The group's answers depend on the recorded ranks, so such a trace is not kept.
  if (!report.group_guards.empty()) return;
  std::vector<TraceReport>& known = traces_[{frame, traced_as(decision)}];
  if (std::ranges::none_of(known,
                           [&](const TraceReport& one) { return same_conditions(one, report); }))
    known.push_back(report);
}

const TraceReport* KnownTraces::find(const std::string& frame, const Decision& decision) const {
  const auto known = traces_.find({frame, traced_as(decision)});
  if (known == traces_.end()) return nullptr;
  bool all_failed = true;
  for (const TraceReport& report : known->second) {
    if (report.failure) continue;
    if (taken_by(decision, report)) return &report;
    all_failed = false;
  }
  return all_failed ? &known->second.front() : nullptr;
}

}  // namespace lockstep::worker::simulator
