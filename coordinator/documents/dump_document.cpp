#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/coordinator/documents/dump_document.h>
#include <lockstep/coordinator/documents/json_text.h>

namespace lockstep::coordinator {
namespace {

using Json = nlohmann::ordered_json;

double seconds(Duration span) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(span).count() / 1000.0;
}

Json rank_json(const WatchedJob& job, Rank rank, Instant now) {
  Json out{{"rank", rank.value}};
  const Member* member = job.membership.member(rank);
  out["link"] = link_name(member);
  if (member == nullptr) return out;
  out["host"] = member->identity.host;
  out["pid"] = member->identity.pid;
  out["restarts"] = member->restarts;
  out["heard_seconds_ago"] = seconds(now - member->heard);
  const Seen* seen = job.progress.seen(rank);
  if (seen == nullptr) return out;
  const RankState& state = seen->state;
  out["phase"] = phase_name(state.phase);
  out["waiting"] = state.waiting;
  out["operation"] = state.operation == OperationKind::None ? "" : operation_name(state.operation);
  out["group"] = fmt::format("{:x}", state.group);
  out["group_name"] = state.group_name;
  out["ordinal"] = state.ordinal;
  out["event"] = state.event;
  out["progress_seconds_ago"] = seconds(now - state.progress);
  out["lease_seconds_left"] = seconds(std::max(state.lease - now, Duration{0}));
  return out;
}

}  // namespace

std::string dump_document(const Service& service, Instant now) {
  std::string out = "{\"format\": \"lockstep.dump/1\", \"jobs\": [";
  bool first_job = true;
  for (const auto& [id, job] : service.jobs()) {
    out += fmt::format("{}\n{{\"job\": {}, \"run\": {}, \"size\": {}, \"ranks\": [",
                       first_job ? "" : ",", json_text(id), job.run, job.membership.size());
    first_job = false;
    for (std::int32_t r = 0; r < job.membership.size(); ++r)
      out += (r == 0 ? "\n" : ",\n") + json_text(rank_json(job, Rank{r}, now));
    out += "]}";
  }
  return out + "]}\n";
}

}  // namespace lockstep::coordinator
