#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/coordinator/documents/json_text.h>
#include <lockstep/coordinator/documents/trace_document.h>

namespace lockstep::coordinator {
namespace {

using Json = nlohmann::ordered_json;

double microseconds(Duration span) { return static_cast<double>(span.count()) / 1000.0; }

Json metadata(const char* what, int process, std::int32_t track, const std::string& name) {
  return {
      {"ph", "M"}, {"name", what}, {"pid", process}, {"tid", track}, {"args", {{"name", name}}}};
}

std::string track_name(const WatchedJob& job, Rank rank) {
  const Member* member = job.membership.member(rank);
  return member == nullptr ? fmt::format("rank {}", rank.value)
                           : fmt::format("rank {} ({})", rank.value, member->identity.host);
}

}  // namespace

std::string trace_document(const Service& service, Instant began, Instant now) {
  std::vector<std::pair<const std::string*, const WatchedJob*>> jobs;
  for (const auto& [id, job] : service.jobs()) jobs.emplace_back(&id, &job);
  std::sort(jobs.begin(), jobs.end(),
            [](const auto& a, const auto& b) { return a.second->began > b.second->began; });
  Json events = Json::array();
  std::size_t left = kMostTraceSpans;
  int process = 0;
  for (const auto& [id, job] : jobs) {
    const std::vector<Span> spans = job->timeline.spans(now);
    if (spans.size() > left) break;
    left -= spans.size();
    events.push_back(metadata("process_name", ++process, 0, "job " + *id));
    const Span* before = nullptr;
    for (const Span& span : spans) {
      if (before == nullptr || before->rank != span.rank)
        events.push_back(
            metadata("thread_name", process, span.rank.value, track_name(*job, span.rank)));
      before = &span;
      events.push_back({{"ph", "X"},
                        {"name", fmt::format("{}: {}", span_kind_name(span.kind), span.name)},
                        {"cat", span_kind_name(span.kind)},
                        {"pid", process},
                        {"tid", span.rank.value},
                        {"ts", microseconds(span.begin - began)},
                        {"dur", microseconds(span.end - span.begin)}});
    }
  }
  return json_text({{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}});
}

}  // namespace lockstep::coordinator
