#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/coordinator/documents/headline.h>
#include <lockstep/coordinator/documents/json_text.h>
#include <lockstep/coordinator/documents/status_calls.h>
#include <lockstep/coordinator/documents/status_document.h>

namespace lockstep::coordinator {
namespace {

using Json = nlohmann::ordered_json;

double seconds(Duration span) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(span).count() / 1000.0;
}
std::string group_text(std::uint64_t group) { return fmt::format("{:x}", group); }

Json finding_json(const Finding& finding, Instant now) {
  return {{"kind", kind_name(finding.kind)},
          {"severity", finding.act ? "act" : "warning"},
          {"ranks", finding.ranks.text()},
          {"seconds", seconds(now - finding.since)},
          {"message", finding.message}};
}

Json operation_json(const Operation& operation, Instant now) {
  return {{"operation", operation_name(operation.kind)},
          {"group", group_text(operation.group)},
          {"group_name", operation.group_name},
          {"ordinal", operation.ordinal},
          {"in", operation.in.text()},
          {"not_in", operation.not_in.text()},
          {"beside", operation.beside.text()},
          {"seconds", seconds(now - operation.since)}};
}

/// Ranks grouped by their last known state; the group with the lowest rank comes first.
Json doing_json(const WatchedJob& job, Instant now) {
  using Doing = std::tuple<std::string, Phase, bool, bool, OperationKind, std::uint64_t,
                           std::uint64_t, std::string, std::string>;
  std::map<Doing, RankSet> all;
  for (std::int32_t r = 0; r < job.progress.size(); ++r) {
    const Seen* seen = job.progress.seen(Rank{r});
    const RankState state = seen != nullptr ? seen->state : RankState{};
    all[{std::string(link_name(job.membership.member(Rank{r}))), state.phase, state.waiting,
         state.lease > now, state.operation, state.group, state.ordinal, state.group_name,
         state.event}]
        .insert(Rank{r});
  }
  std::vector<std::pair<RankSet, const Doing*>> by_rank;
  for (const auto& [doing, ranks] : all) by_rank.emplace_back(ranks, &doing);
  std::sort(by_rank.begin(), by_rank.end(),
            [](const auto& a, const auto& b) { return a.first.lowest() < b.first.lowest(); });
  Json out = Json::array();
  for (const auto& [ranks, doing] : by_rank) {
    const auto& [link, phase, waiting, busy, kind, group, ordinal, group_name, event] = *doing;
    out.push_back({{"ranks", ranks.text()},
                   {"link", link},
                   {"phase", phase_name(phase)},
                   {"waiting", waiting},
                   {"busy", busy},
                   {"operation", kind == OperationKind::None ? "" : operation_name(kind)},
                   {"group", group_text(group)},
                   {"group_name", group_name},
                   {"ordinal", ordinal},
                   {"event", event}});
  }
  return out;
}

Json hosts_json(const WatchedJob& job) {
  std::map<std::string, RankSet> hosts;
  for (std::int32_t r = 0; r < job.membership.size(); ++r)
    if (const Member* member = job.membership.member(Rank{r}))
      hosts[member->identity.host].insert(Rank{r});
  Json out = Json::array();
  for (const auto& [host, ranks] : hosts) out.push_back({{"host", host}, {"ranks", ranks.text()}});
  return out;
}

/// The ranks that wait least, which are those that the other ranks wait for.
Json least_waiting_json(const WatchedJob& job) {
  constexpr std::size_t kShown = 8;
  std::vector<std::pair<double, std::int32_t>> shares;
  for (std::int32_t r = 0; r < job.progress.size(); ++r)
    if (const Seen* seen = job.progress.seen(Rank{r}); seen != nullptr && seen->recent_looks > 0)
      shares.emplace_back(static_cast<double>(seen->recent_waiting) / seen->recent_looks, r);
  std::sort(shares.begin(), shares.end());
  if (shares.size() > kShown) shares.resize(kShown);
  Json out = Json::array();
  for (const auto& [share, r] : shares) {
    const Seen& seen = *job.progress.seen(Rank{r});
    out.push_back(
        {{"rank", r}, {"share", share}, {"behind", seen.awaited}, {"reports", seen.reports}});
  }
  return out;
}

Json job_json(const std::string& id, const WatchedJob& job, const Service& service, Instant now,
              Detail detail) {
  const auto operations = awaited_operations(job.membership, job.progress);
  const auto findings =
      diagnose(job.membership, job.progress, operations, service.rules_of(job), job.began, now);
  const Headline news = headline(job, findings, operations, now);
  Json out{{"job", id},
           {"headline", {{"word", word_text(news.word)}, {"sentence", news.sentence}}},
           {"run", job.run},
           {"size", job.membership.size()},
           {"build", job.membership.build()},
           {"age_seconds", seconds(now - job.began)},
           {"live", job.membership.live().text()},
           {"finished", job.membership.finished().text()},
           {"absent", job.membership.absent().text()},
           {"findings", Json::array()},
           {"operations", Json::array()}};
  for (const Finding& finding : findings) out["findings"].push_back(finding_json(finding, now));
  for (const Operation& operation : operations)
    out["operations"].push_back(operation_json(operation, now));
  out["doing"] = doing_json(job, now);
  out["hosts"] = hosts_json(job);
  out["least_waiting"] = least_waiting_json(job);
  add_calls(out, job, now, detail);
  return out;
}

}  // namespace

std::string status_document(const Service& service, const About& about, Instant now,
                            Detail detail) {
  Json out{{"format", "lockstep.status/1"},
           {"coordinator",
            {{"version", about.version},
             {"listening", about.listening},
             {"pid", about.pid},
             {"uptime_seconds", seconds(now - about.began)}}},
           {"jobs", Json::array()}};
  for (const auto& [id, job] : service.jobs())
    out["jobs"].push_back(job_json(id, job, service, now, detail));
  return detail == Detail::Brief ? json_text(out) : json_text(out, 1) + "\n";
}

}  // namespace lockstep::coordinator
