#include <algorithm>
#include <array>
#include <set>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/coordinator/documents/names.h>
#include <lockstep/coordinator/documents/status_calls.h>

namespace lockstep::coordinator {
namespace {

using Json = nlohmann::ordered_json;

double precise_seconds(Duration span) {
  return std::chrono::duration_cast<std::chrono::microseconds>(span).count() / 1e6;
}

Json version_json(const Version& version) {
  return {{"ranks", version.ranks.text()},
          {"graph", graph_name(version.graph)},
          {"outcome", outcome_name(version.outcome)},
          {"code", error_name(version.outcome, version.code)},
          {"decisions", version.decisions}};
}

/// The ranks that have not reported the call; known only for calls of all ranks.
std::string missing_of(const ReportedCall& call, const WatchedJob& job) {
  return call.event.group.empty() ? RankSet::all(job.membership.size()).minus(call.told).text()
                                  : std::string{};
}

Json call_json(const ReportedCall& call, const WatchedJob& job, Instant now) {
  const CallEvent& event = call.event;
  Json out{{"serial", call.serial},
           {"frame", event.frame},
           {"group", event.group},
           {"epoch", event.epoch},
           {"call", event.call},
           {"attempts", event.attempts},
           {"outcome", outcome_name(event.outcome)},
           {"code", error_name(event.outcome, event.code)},
           {"entry", event.entry},
           {"graph", graph_name(event.graph)},
           {"nodes", event.nodes},
           {"told", call.told.text()},
           {"missing", missing_of(call, job)},
           {"seconds_ago", precise_seconds(now - call.first)},
           {"spread_seconds", precise_seconds(call.last - call.first)},
           {"exchange_seconds", precise_seconds(event.exchange)},
           {"trace_seconds", precise_seconds(event.trace)},
           {"compile_seconds", precise_seconds(call.compile_most)},
           {"compile_slowest", call.compile_slowest.value},
           {"waited_seconds", precise_seconds(call.waited_most)},
           {"versions", Json::array()},
           {"reasons", Json::array()}};
  for (const Version& version : call.versions) out["versions"].push_back(version_json(version));
  for (const ReportedReason& reason : call.reasons)
    out["reasons"].push_back({{"text", reason.text}, {"ranks", reason.ranks.text()}});
  return out;
}

/// The graphs of the calls shown, each once; with their texts if Detail::Full.
Json graphs_json(const WatchedJob& job, std::size_t first, Detail detail) {
  const auto& calls = job.call_log.calls();
  std::set<shapes::Fingerprint> seen;
  Json out = Json::array();
  for (std::size_t i = calls.size(); i-- > first;)
    for (const Version& version : calls[i].versions) {
      if (version.graph == shapes::Fingerprint{} || !seen.insert(version.graph).second) continue;
      const std::string* text = job.call_log.graph_text(version.graph);
      Json graph{{"graph", version.graph.text()},
                 {"frame", calls[i].event.frame},
                 {"call", calls[i].event.call},
                 {"ranks", version.ranks.text()},
                 {"outcome", outcome_name(version.outcome)},
                 {"known", text != nullptr}};
      if (detail == Detail::Full) graph["text"] = text != nullptr ? Json(*text) : Json(nullptr);
      out.push_back(std::move(graph));
    }
  return out;
}

/// For each counter the largest value of any rank, because the ranks of a group count the same
/// calls.
Json counters_json(const Progress& progress) {
  CallCounters most;
  for (std::int32_t r = 0; r < progress.size(); ++r) {
    const Seen* seen = progress.seen(Rank{r});
    if (seen == nullptr) continue;
    const CallCounters& own = seen->counters;
    for (const auto field :
         {&CallCounters::reused, &CallCounters::compiled, &CallCounters::fallbacks,
          &CallCounters::errors, &CallCounters::votes, &CallCounters::exchanges})
      most.*field = std::max(most.*field, own.*field);
    for (const auto field :
         {&CallCounters::waited, &CallCounters::wire, &CallCounters::trace, &CallCounters::compile})
      most.*field = std::max(most.*field, own.*field);
  }
  return {{"reused", most.reused},
          {"compiled", most.compiled},
          {"fallbacks", most.fallbacks},
          {"errors", most.errors},
          {"votes", most.votes},
          {"exchanges", most.exchanges},
          {"waited_seconds", precise_seconds(most.waited)},
          {"wire_seconds", precise_seconds(most.wire)},
          {"trace_seconds", precise_seconds(most.trace)},
          {"compile_seconds", precise_seconds(most.compile)}};
}

/// Ranks grouped by their share of waiting time, in tenths. The ranks that wait least are those
/// that the others wait for.
Json waiting_json(const Progress& progress) {
  std::array<RankSet, 11> tenths;
  for (std::int32_t r = 0; r < progress.size(); ++r)
    if (const Seen* seen = progress.seen(Rank{r}); seen != nullptr && seen->recent_looks > 0)
      tenths[std::min<std::size_t>(10, std::size_t{10} * seen->recent_waiting / seen->recent_looks)]
          .insert(Rank{r});
  Json out = Json::array();
  for (std::size_t tenth = 0; tenth < tenths.size(); ++tenth)
    if (!tenths[tenth].empty())
      out.push_back({{"percent", tenth * 10}, {"ranks", tenths[tenth].text()}});
  return out;
}

/// JSON from lines of "name=value".
Json configuration_json(const std::string& text) {
  Json out = Json::array();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    const std::size_t sign = line.find('=');
    if (sign != std::string::npos)
      out.push_back({{"name", line.substr(0, sign)}, {"value", line.substr(sign + 1)}});
    at = end + 1;
  }
  return out;
}

}  // namespace

void add_calls(Json& out, const WatchedJob& job, Instant now, Detail detail) {
  out["counters"] = counters_json(job.progress);
  out["waiting"] = waiting_json(job.progress);
  out["frames"] = Json::array();
  for (const auto& [name, frame] : job.call_log.frames())
    out["frames"].push_back({{"frame", name},
                             {"compiled", frame.compiled},
                             {"fallbacks", frame.fallbacks},
                             {"errors", frame.errors}});
  const auto& calls = job.call_log.calls();
  const std::size_t first = calls.size() - std::min(calls.size(), kShownCalls);
  out["calls"] = Json::array();
  for (std::size_t i = calls.size(); i-- > first;)
    out["calls"].push_back(call_json(calls[i], job, now));
  out["graphs"] = graphs_json(job, first, detail);
  out["configuration"] = configuration_json(job.call_log.configuration());
}

}  // namespace lockstep::coordinator
