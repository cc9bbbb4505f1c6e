#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <lockstep/coordinator/documents/event_log.h>

namespace lockstep::coordinator {
namespace {

constexpr std::chrono::seconds kPatience{2};

void count(CallTally::Histogram& histogram, Duration span) {
  const double value = std::chrono::duration<double>(span).count();
  const auto& bounds = CallTally::kBounds;
  const auto bucket = std::lower_bound(bounds.begin(), bounds.end(), value) - bounds.begin();
  ++histogram.buckets[static_cast<std::size_t>(bucket)];
  histogram.sum += value;
}

/// True if the rank that gives this reason had a fitting entry while other ranks had none.
bool fits_here(std::string_view reason) { return reason.starts_with("an entry fits this rank"); }

void count(CallTally& tally, const ReportedCall& told) {
  const CallEvent& event = told.event;
  count(tally.compile[outcome_name(event.outcome)], event.trace + told.compile_most);
  if (event.outcome == CallEvent::Outcome::Error) {
    if (const auto what = field_kind(event.code); !what.empty()) ++tally.divergences[what];
    return;
  }
  // The reason of the first rank on which no entry fitted.
  std::string_view reason;
  bool forced = false;
  for (const ReportedReason& each : told.reasons) {
    const bool fits = fits_here(each.text);
    forced = forced || fits;
    if (reason.empty() || (fits_here(reason) && !fits)) reason = each.text;
  }
  ++tally.recompiles[{reason_class(reason), forced}];
}

/// If the line is about a single rank, adds the rank's process and last known state.
void add_rank(EventLine& line, const WatchedJob& job) {
  if (line.ranks.size() != 1) return;
  if (const Member* member = job.membership.member(line.ranks.lowest())) {
    line.host = member->identity.host;
    line.pid = member->identity.pid;
  }
  if (const Seen* seen = job.progress.seen(line.ranks.lowest())) {
    line.phase = phase_name(seen->state.phase);
    line.round = operation_text(seen->state);
  }
}

}  // namespace

std::string_view reason_class(std::string_view reason) {
  if (reason.starts_with("entry ")) {
    reason.remove_prefix(std::min(reason.find(": ") + 2, reason.size()));
    reason = reason.substr(0, reason.find("; entry "));
  }
  const auto has = [&](std::string_view part) { return reason.find(part) != std::string::npos; };
  if (reason.starts_with("first call")) return "first_call";
  if (fits_here(reason)) return "elsewhere";
  if (reason.starts_with("guard ")) return "guard";
  if (has("the inputs have other")) return "inputs";
  if (has(" is marked ")) return "mark";
  if (has("the entry needs at least")) return "bound";
  if (has("the entry has")) return has(".size(") ? "size" : "value";
  return "other";
}

std::string_view field_kind(Code code) {
  switch (code) {
    case Code::AbsentRanks:
      return "ranks";
    case Code::FrameMismatch:
      return "frame";
    case Code::SourceMismatch:
      return "source";
    case Code::KindMismatch:
      return "kind";
    case Code::DtypeMismatch:
      return "dtype";
    case Code::NdimMismatch:
      return "ndim";
    case Code::ConstantMismatch:
      return "constant";
    case Code::MarkConflict:
      return "mark";
    case Code::ConstraintViolation:
      return "constraint";
    case Code::BranchDivergence:
      return "branch";
    case Code::GraphDivergence:
      return "graph";
    case Code::ConfigMismatch:
      return "config";
    case Code::TraceError:
    case Code::CompileError:
    case Code::RuntimeAssert:
    case Code::Gone:
    case Code::Stuck:
    case Code::RankLost:
    case Code::BadInput:
    case Code::Version:
    case Code::Environment:
    case Code::Internal:
      return "";
  }
  return "";
}

EventLine EventLog::event(std::string_view level, std::string_view name) const {
  return {.at = wall_, .mono = now_, .level = level, .job = job_, .run = run_, .event = name};
}

void EventLog::add(const EventLine& event) {
  new_lines_.push_back(line_of(event));
  lines_.push_back(new_lines_.back());
  bytes_ += lines_.back().size();
  while (lines_.size() > kMostLines || bytes_ > kMostBytes) {
    bytes_ -= lines_.front().size();
    lines_.pop_front();
  }
}

void EventLog::members(const WatchedJob& job, Known& known) {
  const RankSet live = job.membership.live(), finished = job.membership.finished();
  const auto say = [&](std::string_view level, std::string_view name, const RankSet& ranks) {
    if (ranks.empty()) return;
    EventLine line = event(level, name);
    line.ranks = ranks;
    add_rank(line, job);
    add(line);
  };
  RankSet here = live;  // some ranks may have joined and finished since the last look
  here.insert(finished);
  const RankSet first_time = here.minus(known.came);
  say("info", "joined", first_time);
  say("warning", "joined_again", live.minus(known.live).minus(first_time));
  say("warning", "connection_closed", known.live.minus(live).minus(finished));
  say("info", "finished", finished.minus(known.finished));
  known.came.insert(live);
  known.came.insert(finished);
  known.live = live;
  known.finished = finished;
}

void EventLog::findings(const WatchedJob& job, const Service& service, Known& known) {
  std::map<std::string, EventLine> hold;
  for (const Finding& finding : service.diagnose(job, now_)) {
    // The lagging ranks may change at every look, so there is one event as long as any rank lags.
    const bool lags = finding.kind == Finding::Kind::Lags;
    const std::string key = fmt::format("{} {} {}", kind_name(finding.kind), finding.act,
                                        lags ? "" : finding.ranks.text());
    EventLine line = event(finding.act ? "error" : "warning", kind_name(finding.kind));
    line.ranks = finding.ranks;
    line.waited = now_ - finding.since;
    line.message = finding.message;
    add_rank(line, job);
    if (!known.findings.contains(key)) add(line);
    hold.emplace(key, std::move(line));
  }
  for (const auto& held : known.findings) {
    const EventLine& line = held.second;
    // A finding that has become more severe or names more ranks is not over.
    const bool goes_on = std::any_of(hold.begin(), hold.end(), [&](const auto& other) {
      return other.second.event == line.event && line.ranks.minus(other.second.ranks).empty();
    });
    if (goes_on) continue;
    EventLine over = event("info", "over");
    over.ranks = line.ranks;
    over.message = fmt::format("no longer: {}", line.event);
    add(over);
  }
  known.findings = std::move(hold);
  const auto verdict = service.verdict(job, now_);
  if (!verdict || known.ended) return;
  known.ended = true;
  EventLine line = event("error", "verdict");
  line.code = code_name(verdict->code);
  line.message = verdict->message;
  add(line);
}

void EventLog::call(const WatchedJob& job, const ReportedCall& told) {
  const CallEvent& of = told.event;
  EventLine line = event(of.outcome == CallEvent::Outcome::Error      ? "error"
                         : of.outcome == CallEvent::Outcome::Fallback ? "warning"
                                                                      : "info",
                         outcome_name(of.outcome));
  line.ranks = told.told;
  add_rank(line, job);
  line.frame = of.frame;
  line.group = of.group;
  line.epoch = of.epoch;
  line.call = of.call;
  line.attempt = of.attempts;
  if (of.graph != shapes::Fingerprint{}) line.graph = of.graph.text();
  if (of.outcome == CallEvent::Outcome::Error) line.code = code_name(of.code);
  line.took = of.exchange + of.trace + told.compile_most;
  line.waited = told.waited_most;
  line.message = of.reason;
  add(line);
  if (told.versions.size() < 2) return;
  line.event = "ranks_differ";
  line.level = "error";
  line.message.clear();
  for (const Version& version : told.versions)
    line.message += fmt::format(
        "{}{}: {}", line.message.empty() ? "" : "; ", version.ranks.phrase(),
        version.graph == shapes::Fingerprint{} ? code_name(version.code) : version.graph.text());
  add(line);
}

void EventLog::calls(const WatchedJob& job, Known& known) {
  for (const ReportedCall& told : job.call_log.calls()) {
    if (told.serial < known.next_call) continue;
    const bool whole = told.told.size() == job.membership.size();
    if (!whole && now_ - told.first < kPatience) return;  // later calls wait as well
    known.next_call = told.serial + 1;
    count(tallies_[job_], told);
    call(job, told);
  }
}

void EventLog::look_at(const std::string& id, const WatchedJob& job, const Service& service) {
  Known& known = jobs_[id];
  job_ = id;
  run_ = job.run;
  (void)tallies_[id];
  if (known.run != job.run) {
    known = Known{};
    known.run = job.run;
    EventLine line = event("info", "began");
    line.message = fmt::format("{} ranks, build {}", job.membership.size(), job.membership.build());
    add(line);
  }
  members(job, known);
  calls(job, known);
  findings(job, service, known);
}

std::vector<std::string> EventLog::look(const Service& service, Instant now, WallTime wall) {
  now_ = now;
  wall_ = wall;
  new_lines_.clear();
  for (const auto& [id, job] : service.jobs()) look_at(id, job, service);
  std::erase_if(jobs_, [&](const auto& entry) { return !service.jobs().contains(entry.first); });
  std::erase_if(tallies_, [&](const auto& entry) { return !service.jobs().contains(entry.first); });
  return std::exchange(new_lines_, {});
}

}  // namespace lockstep::coordinator
