#include <algorithm>
#include <utility>

#include <lockstep/coordinator/service/call_log.h>

namespace lockstep::coordinator {
namespace {

constexpr std::chrono::seconds kAskAgain{10};

void add_version(ReportedCall& call, const CallEvent& event, const RankSet& rank) {
  const auto same =
      std::find_if(call.versions.begin(), call.versions.end(), [&](const Version& version) {
        return version.graph == event.graph && version.outcome == event.outcome &&
               (event.outcome != CallEvent::Outcome::Error || version.code == event.code);
      });
  if (same == call.versions.end()) {
    if (call.versions.size() == ReportedCall::kMostVersions)
      call.other_versions.insert(rank);
    else
      call.versions.push_back({event.graph, event.outcome, event.code, event.decisions, rank});
    return;
  }
  if (rank.lowest() < same->ranks.lowest()) same->decisions = event.decisions;
  same->ranks.insert(rank);
}

void add_reason(ReportedCall& call, const CallEvent& event, const RankSet& rank) {
  for (ReportedReason& reason : call.reasons)
    if (reason.text == event.reason) return reason.ranks.insert(rank);
  if (call.reasons.size() == ReportedCall::kMostReasons)
    call.other_reasons.insert(rank);
  else
    call.reasons.push_back({event.reason, rank});
}

void count(ReportedFrame& frame, const CallEvent& event) {
  frame.compiled += event.outcome == CallEvent::Outcome::Compiled ? 1 : 0;
  frame.fallbacks += event.outcome == CallEvent::Outcome::Fallback ? 1 : 0;
  frame.errors += event.outcome == CallEvent::Outcome::Error ? 1 : 0;
}

}  // namespace

ReportedCall& CallLog::call_of(const CallEvent& event, Instant now) {
  const Key key{event.epoch, event.group, event.call, event.frame};
  if (const auto known = serials_.find(key); known != serials_.end())
    return calls_[static_cast<std::size_t>(known->second - calls_.front().serial)];
  if (calls_.size() == kMostCalls) {
    const CallEvent& oldest = calls_.front().event;
    serials_.erase({oldest.epoch, oldest.group, oldest.call, oldest.frame});
    calls_.pop_front();
  }
  serials_.emplace(key, next_);
  ReportedCall& call = calls_.emplace_back();
  call.serial = next_++;
  call.event = event;
  call.first = now;
  if (frames_.size() < kMostFrames || frames_.contains(event.frame)) {
    ReportedFrame& frame = frames_[event.frame];
    count(frame, event);
    frame.last = call.serial;
  }
  return call;
}

void CallLog::take(Rank rank, const CallEvent& event, Instant now) {
  ReportedCall& call = call_of(event, now);
  const RankSet self = RankSet::of(rank);
  if (!call.told.empty() && rank < call.told.lowest()) call.event = event;
  call.told.insert(self);
  call.last = now;
  add_version(call, event, self);
  add_reason(call, event, self);
  call.waited_most = std::max(call.waited_most, event.waited);
  if (event.compile <= call.compile_most && call.told.size() > 1) return;
  call.compile_most = event.compile;
  call.compile_slowest = rank;
}

std::optional<shapes::Fingerprint> CallLog::wanted(const CallEvent& event, Instant now) {
  if (event.graph == shapes::Fingerprint{}) return std::nullopt;
  if (const auto known = graphs_.find(event.graph); known != graphs_.end()) {
    if (known->second.text || now - known->second.asked < kAskAgain) return std::nullopt;
    known->second.asked = now;
    return event.graph;
  }
  if (graph_order_.size() == kMostGraphs) {
    graphs_.erase(graph_order_.front());
    graph_order_.pop_front();
  }
  graph_order_.push_back(event.graph);
  graphs_[event.graph].asked = now;
  return event.graph;
}

void CallLog::take_graph(const shapes::Fingerprint& graph, std::string text) {
  if (const auto asked = graphs_.find(graph); asked != graphs_.end())
    asked->second.text = std::move(text);
}

const std::string* CallLog::graph_text(const shapes::Fingerprint& graph) const {
  const auto known = graphs_.find(graph);
  return known != graphs_.end() && known->second.text ? &*known->second.text : nullptr;
}

}  // namespace lockstep::coordinator
