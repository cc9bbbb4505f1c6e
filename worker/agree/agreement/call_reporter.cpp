#include <utility>

#include <lockstep/worker/agree/agreement/call_reporter.h>

namespace lockstep::worker {
namespace {

using coordinator::CallEvent;

CallEvent::Outcome outcome_of(const CallOutcome& outcome) {
  switch (outcome.kind) {
    case CallOutcome::Kind::Compiled:
      return CallEvent::Outcome::Compiled;
    case CallOutcome::Kind::Fallback:
      return CallEvent::Outcome::Fallback;
    case CallOutcome::Kind::Reused:
    case CallOutcome::Kind::Error:
      break;
  }
  return CallEvent::Outcome::Error;
}

/// Why no existing entry serves the call.
std::string reason_of(const CodeCache& cache, const Observation& observation) {
  if (cache.entries.empty()) return "first call of the frame";
  std::string out;
  for (const Misfit& misfit : cache.explain(observation)) {
    if (!out.empty()) out += "; ";
    out += "entry " + std::to_string(misfit.entry) + ": " + misfit.reason;
  }
  return out.empty() ? "an entry fits this rank, but not every rank" : out;
}

}  // namespace

void CallReporter::missed(const CallMachine& machine) {
  why_ = reason_of(machine.cache(), machine.observation());
}

void CallReporter::count(const CallOutcome& outcome, const CallTimes& took) {
  counters_.reused += outcome.kind == CallOutcome::Kind::Reused ? 1 : 0;
  counters_.compiled += outcome.kind == CallOutcome::Kind::Compiled ? 1 : 0;
  counters_.fallbacks += outcome.kind == CallOutcome::Kind::Fallback ? 1 : 0;
  counters_.errors += outcome.kind == CallOutcome::Kind::Error ? 1 : 0;
  counters_.votes += took.votes;
  counters_.exchanges += took.exchanges;
  counters_.waited += took.vote_wait;
  counters_.wire += took.vote - took.vote_wait + took.exchange;
  counters_.trace += took.trace;
  counters_.compile += took.compile;
  counters_.rounds += took.rounds;
  feed_->count(counters_);
}

void CallReporter::ended(const CallMachine& machine, const CallOutcome& outcome,
                         const CallTimes& took) {
  count(outcome, took);
  if (outcome.kind == CallOutcome::Kind::Reused) return;
  CallEvent event;
  const RoundKey& key = machine.key();
  event.frame = key.frame;
  event.group = key.group;
  event.epoch = key.epoch;
  event.call = key.call;
  event.outcome = outcome_of(outcome);
  event.entry = outcome.entry;
  event.attempts = static_cast<std::uint32_t>(took.traces);
  event.graph = machine.trace_report().graph;
  event.nodes = machine.trace_report().prefixes.size();
  event.reason = std::exchange(why_, {});
  event.waited = took.vote_wait;
  event.exchange = took.exchange;
  event.trace = took.trace;
  event.compile = took.compile;
  if (outcome.error) {
    event.code = outcome.error->code;
    event.reason = outcome.error->message;
  }
  if (outcome.kind == CallOutcome::Kind::Compiled)
    event.decisions =
        decision_text(machine.cache().entries[static_cast<std::size_t>(outcome.entry)].decision);
  feed_->tell(std::move(event));
}

}  // namespace lockstep::worker
