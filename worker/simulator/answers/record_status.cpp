#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/coordinator/documents/status_document.h>
#include <lockstep/worker/agree/agreement/code_cache.h>
#include <lockstep/worker/simulator/answers/record_status.h>
#include <lockstep/worker/simulator/cost/timing.h>

namespace lockstep::worker::simulator {
namespace {

using coordinator::CallEvent;
using coordinator::ConnectionId;
using Document = nlohmann::ordered_json;

/// Reports of a rank, made from its record call by call.
class RankTeller {
 public:
  struct Told {
    Instant at{0};
    CallEvent event;
    std::string guards;  // guards of its graph
  };

  explicit RankTeller(const RankRecord& record) : record_(record) {}
  /// Next report of the rank; nullopt: no more. Errors: those of CallIndex::read.
  Result<std::optional<Told>> next() {
    told_.reset();
    while (!told_ && next_ < record_.calls.size()) {
      const auto call = record_.calls.read(next_++);
      if (!call) return call.error();
      take(*call);
    }
    return std::move(told_);
  }
  // The functions below require that next() has returned nullopt.
  [[nodiscard]] coordinator::SlotReport report(Instant at) const {
    coordinator::SlotReport out;
    out.finished = !record_.failed_round && !record_.ends_within_a_call();
    out.phase = out.finished ? Phase::Finishing : phase_;
    out.event = last_step(record_);
    out.since_progress = at - now_;
    out.counters = counters_;
    return out;
  }
  [[nodiscard]] Instant end() const { return now_; }

 private:
  void take(const RecordedCall& call) {
    CallEvent event{.frame = call.key.frame,
                    .group = record_.groups.contains(call.key.group) ? call.key.group : "",
                    .epoch = call.key.epoch,
                    .call = call.key.call};
    std::string guards;
    pass(call.pause);
    event.attempts = 0;
    const RecordedEvent* before = nullptr;
    for (const RecordedEvent& each : call.events) {
      pass(each.took);
      count(before, each.took, event);
      take(each, event, guards);
      before = &each;
    }
    pass(call.closing);
    count(before, call.closing, event);
    if (call.outcome) end(call, event, guards);
  }

  /// Adds the time since the previous line to the times of `action`, which wrote that line.
  void count(const RecordedEvent* action, Duration took, CallEvent& event) {
    if (action == nullptr || action->kind != RecordedEvent::Kind::Action) return;
    if (action->text.starts_with("vote")) {
      ++counters_.votes;
      event.waited += took;
    } else if (action->text.starts_with("exchange") || action->text.starts_with("broadcast")) {
      ++counters_.exchanges;
      event.exchange += took;
    } else if (action->text.starts_with("trace")) {
      event.trace += took;
    } else if (action->text.starts_with("compile")) {
      event.compile += took;
    }
  }

  void take(const RecordedEvent& each, CallEvent& event, std::string& guards) {
    if (each.kind == RecordedEvent::Kind::Action && each.text.starts_with("trace ")) {
      event.decisions = each.text.substr(6);
      phase_ = Phase::Tracing;
    } else if (each.kind == RecordedEvent::Kind::Action && each.text.starts_with("compile")) {
      phase_ = Phase::Compiling;
    } else if (each.kind == RecordedEvent::Kind::Trace) {
      ++event.attempts;
      event.graph = each.trace.graph;
      guards = "A record holds no nodes; the guards of this graph are\n";
      for (const shapes::Guard& guard : each.trace.guards)
        guards += fmt::format("{}  ({})\n", guard.predicate.text(), guard.where.text());
    }
  }

  void end(const RecordedCall& call, CallEvent& event, const std::string& guards) {
    phase_ = Phase::Running;
    counters_.waited += event.waited;
    counters_.trace += event.trace;
    counters_.compile += event.compile;
    event.attempts = std::max(event.attempts, 1U);
    event.entry = call.outcome->entry;
    switch (call.outcome->kind) {
      case CallOutcome::Kind::Reused:
        ++counters_.reused;
        return;
      case CallOutcome::Kind::Compiled:
        ++counters_.compiled;
        event.outcome = CallEvent::Outcome::Compiled;
        event.reason = reason(call);
        made_[call.key.frame] = {call.observation, call.key.call};
        break;
      case CallOutcome::Kind::Fallback:
        ++counters_.fallbacks;
        event.outcome = CallEvent::Outcome::Fallback;
        event.reason = reason(call);
        break;
      case CallOutcome::Kind::Error:
        ++counters_.errors;
        event.outcome = CallEvent::Outcome::Error;
        event.code = call.outcome->error->code;
        event.reason = call.outcome->error->text();
        break;
    }
    told_ = Told{now_, std::move(event), guards};
  }

  /// Names the first input that differs from the inputs of the last entry; empty: none differs.
  std::string reason(const RecordedCall& call) const {
    const auto made = made_.find(call.key.frame);
    if (made == made_.end()) return "first call";
    const Observation& then = made->second.seen;
    const Observation& now = call.observation;
    if (!(then.list->digest() == now.list->digest()))
      return fmt::format("{} (made in call {})", other_source(then.list->sources(), *now.list),
                         made->second.call);
    for (std::size_t s = 0; s < now.list->sources().size(); ++s)
      for (std::size_t d = 0; d < now.of(s).size(); ++d)
        if (now.of(s)[d] != then.of(s)[d])
          return fmt::format("{} is {}, was {} in call {}",
                             now.list->sources()[s].kind == Kind::Tensor
                                 ? size_text(now.list->sources()[s].name, d)
                                 : now.list->sources()[s].name,
                             now.of(s)[d], then.of(s)[d], made->second.call);
    return {};
  }

  struct Made {
    Observation seen;
    std::uint64_t call = 0;
  };
  const RankRecord& record_;
  std::size_t next_ = 0;  // index of the next call
  void pass(Duration time) { now_ = Instant(sum_of_times(now_.count(), time.count())); }

  Instant now_{0};
  Phase phase_ = Phase::Starting;
  coordinator::CallCounters counters_;
  std::map<std::string, Made> made_;  // the last entry, by frame
  std::optional<Told> told_;
};

std::string configuration_of(const DecisionConfig& config) {
  return fmt::format(
      "consistency={}\nautomatic_dynamic={}\nassume_at_least_two={}\nrecompile_limit={}\n"
      "settle={}\n",
      consistency_name(config.consistency), config.automatic_dynamic, config.assume_at_least_two,
      config.recompile_limit, config.settle);
}

/// Passes the records of all ranks to the service, in the order of their times. Returns the last
/// time.
Result<Instant> tell(coordinator::Service& service, const std::vector<RankRecord>& ranks,
                     const std::string& job) {
  std::vector<RankTeller> tellers(ranks.begin(), ranks.end());
  std::map<std::pair<Instant, std::size_t>, RankTeller::Told> next;  // at most one per rank
  const auto ask = [&](std::size_t r) -> Result<void> {
    auto told = tellers[r].next();
    if (!told) return told.error();
    if (*told) next.try_emplace({(*told)->at, r}, **std::move(told));
    return {};
  };
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const coordinator::Identity identity{.job = job,
                                         .rank = ranks[r].header.rank,
                                         .size = ranks[r].header.world_size,
                                         .host = "not in a record",
                                         .build = ranks[r].header.build_id};
    (void)service.join(identity, ConnectionId(r + 1), Instant{0});
    if (const auto asked = ask(r); !asked) return asked.error();
  }
  service.configure(ConnectionId(1), {configuration_of(ranks.front().header.config)});
  while (!next.empty()) {
    const auto [at, told] = std::pair(next.begin()->first, std::move(next.begin()->second));
    const std::size_t r = at.second;
    next.erase(next.begin());
    if (const auto wanted = service.told(ConnectionId(r + 1), told.event, told.at))
      service.graph(ConnectionId(r + 1), {*wanted, told.guards});
    if (const auto asked = ask(r); !asked) return asked.error();
  }
  Instant end{0};
  for (const RankTeller& teller : tellers) end = std::max(end, teller.end());
  for (std::size_t r = 0; r < ranks.size(); ++r)
    service.report(ConnectionId(r + 1), tellers[r].report(end), end);
  for (std::size_t r = 0; r < ranks.size(); ++r) service.closed(ConnectionId(r + 1), end);
  return end;
}

/// Replaces the verdict of the service, which is meant for running jobs, by that of the record.
void put_verdict(Document& job, const Explanation& explanation, const std::string& watchdog) {
  const std::string sentence = explanation.cause.empty()
                                   ? explanation.verdict
                                   : fmt::format("{}: {}", explanation.verdict, explanation.cause);
  if (explanation.cause.empty()) job["headline"]["word"] = "ENDED";
  job["headline"]["sentence"] = sentence;
  job["findings"] = Document::array();
  const auto find = [&](const char* kind, const std::string& text) {
    job["findings"].push_back(
        {{"kind", kind}, {"severity", "note"}, {"ranks", ""}, {"seconds", 0}, {"message", text}});
  };
  if (!watchdog.empty()) find("watchdog", watchdog);
  if (!explanation.cause.empty()) find("explanation", explanation.text);
}

}  // namespace

Result<std::string> record_status(const std::vector<RankRecord>& ranks,
                                  const Explanation& explanation, const std::string& directory,
                                  const std::string& watchdog, std::string_view version,
                                  std::string_view made) {
  if (ranks.size() > static_cast<std::size_t>(coordinator::kMostRanks))
    return bad_input(fmt::format("{}: the page shows jobs of up to {} ranks.", directory,
                                 coordinator::kMostRanks));
  coordinator::Service service;
  const std::string job = directory.substr(0, coordinator::kJobBytes);
  const auto told = tell(service, ranks, job);
  if (!told) return told.error();
  const Instant end = *told;
  const coordinator::About about{std::string(version), "a record", 0, Instant{0}};
  Document status = Document::parse(coordinator::status_document(service, about, end));
  status["made"] = made;
  put_verdict(status["jobs"][0], explanation, watchdog);
  return status.dump(-1, ' ', false, Document::error_handler_t::replace);
}

}  // namespace lockstep::worker::simulator
