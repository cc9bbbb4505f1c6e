#include <utility>

#include <lockstep/coordinator/documents/headline.h>
#include <lockstep/coordinator/documents/history_collector.h>
#include <lockstep/coordinator/documents/names.h>

namespace lockstep::coordinator {
namespace {

HistoryCall past(const ReportedCall& told, HistoryTime at) {
  const CallEvent& event = told.event;
  HistoryCall call{.serial = told.serial,
                   .at = at,
                   .frame = event.frame,
                   .group = event.group,
                   .epoch = event.epoch,
                   .call = event.call,
                   .outcome = std::string(outcome_name(event.outcome)),
                   .code = error_name(event.outcome, event.code),
                   .entry = event.entry,
                   .attempts = event.attempts,
                   .ranks = told.told.text(),
                   .exchange = event.exchange,
                   .trace = event.trace,
                   .compile = told.compile_most,
                   .waited = told.waited_most,
                   .slowest = told.compile_slowest.value};
  for (const Version& version : told.versions)
    call.versions.push_back({version.ranks.text(), graph_name(version.graph),
                             std::string(outcome_name(version.outcome)),
                             error_name(version.outcome, version.code), version.decisions});
  for (const ReportedReason& reason : told.reasons)
    call.reasons.push_back({reason.ranks.text(), reason.text});
  return call;
}

}  // namespace

RunNews HistoryCollector::news_of(const Service& service, const WatchedJob& job, Watched& watched,
                                  Instant now, HistoryTime wall) const {
  const auto at = [&](Instant then) {
    return wall - std::chrono::duration_cast<std::chrono::microseconds>(now - then);
  };
  RunNews news;
  if (const auto& calls = job.call_log.calls(); !calls.empty())
    watched.calls.erase(watched.calls.begin(), watched.calls.lower_bound(calls.front().serial));
  for (const ReportedCall& call : job.call_log.calls())
    if (std::int64_t& told = watched.calls[call.serial]; told != call.told.size()) {
      told = call.told.size();
      news.calls.push_back(past(call, at(call.first)));
    }
  const auto findings = service.diagnose(job, now);
  std::set<std::string> hold;
  const auto note = [&](const std::string& key, const std::string& kind,
                        const std::string& message) {
    if (!watched.held.contains(key)) news.notes.push_back({wall, kind, message});
    hold.insert(key);
  };
  for (const Finding& finding : findings)
    if (finding.act) {
      const std::string kind(kind_name(finding.kind));
      note(kind + " " + finding.ranks.text(), kind, finding.message);
    }
  if (const auto verdict = service.verdict(job, now))
    note("verdict", "verdict " + std::string(code_name(verdict->code)), verdict->message);
  watched.held = std::move(hold);
  const Headline stands =
      headline(job, findings, awaited_operations(job.membership, job.progress), now);
  HistoryRun& run = watched.run;
  run.configuration = job.call_log.configuration();
  run.seen = wall;
  run.word = word_text(stands.word);
  run.sentence = stands.sentence;
  if (job.membership.anyone_live())
    run.ended.reset();
  else if (!run.ended)
    run.ended = wall;
  news.run = run;
  return news;
}

/// Whether the news is worth a write. A new headline sentence alone is not, because these sentences
/// count seconds.
bool HistoryCollector::worth_writing(const RunNews& news, const HistoryRun& before, Instant told,
                                     Instant now) const {
  const HistoryRun& run = news.run;
  return !news.calls.empty() || !news.notes.empty() || run.watched != before.watched ||
         run.word != before.word || run.configuration != before.configuration ||
         run.ended != before.ended || (!run.ended && now - told >= kSign);
}

std::vector<RunNews> HistoryCollector::collect(const Service& service, Instant now,
                                               HistoryTime wall) {
  std::vector<RunNews> all;
  // A run is over if another run has followed, or if its job was removed to make room.
  for (auto it = watched_.begin(); it != watched_.end();) {
    const auto job = service.jobs().find(it->first);
    if (job != service.jobs().end() && job->second.began == it->second.began) {
      ++it;
      continue;
    }
    HistoryRun& run = it->second.run;
    if (!run.ended) {
      run.ended = run.seen;
      all.push_back({run, {}, {}});
    }
    it = watched_.erase(it);
  }
  for (const auto& [id, job] : service.jobs()) {
    const auto [at, first] = watched_.try_emplace(id);
    Watched& watched = at->second;
    const HistoryRun before = watched.run;
    if (first) {
      watched.began = job.began;
      watched.run.coordinator = coordinator_;
      watched.run.job = id;
      watched.run.watched = ++runs_;
      watched.run.size = job.membership.size();
      watched.run.build = job.membership.build();
      watched.run.began =
          wall - std::chrono::duration_cast<std::chrono::microseconds>(now - job.began);
    }
    RunNews news = news_of(service, job, watched, now, wall);
    if (!first && !worth_writing(news, before, watched.told, now)) continue;
    watched.told = now;
    all.push_back(std::move(news));
  }
  return all;
}

}  // namespace lockstep::coordinator
