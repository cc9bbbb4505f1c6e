#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <lockstep/coordinator/service/timeline.h>

namespace lockstep::coordinator {
namespace {

std::optional<Span::Kind> kind_of(Phase phase) {
  switch (phase) {
    case Phase::Tracing:
      return Span::Kind::Tracing;
    case Phase::Compiling:
      return Span::Kind::Compiling;
    case Phase::Loading:
      return Span::Kind::Loading;
    default:
      return std::nullopt;
  }
}

std::string wait_name(const SlotReport& report) {
  return fmt::format("{} {}{}", operation_name(report.operation), report.ordinal,
                     report.group == kWorldGroup
                         ? ""
                         : " of " + (report.group_name.empty() ? fmt::format("{:x}", report.group)
                                                               : report.group_name));
}

}  // namespace

std::string_view span_kind_name(Span::Kind kind) {
  constexpr std::string_view kNames[] = {"wait",     "tracing", "compiling", "loading",
                                         "exchange", "trace",   "compile"};
  return kNames[static_cast<std::size_t>(kind)];
}

bool Timeline::follows(Rank rank) const {
  const int every = (size_ + kMostRanks - 1) / kMostRanks;
  return rank.value % every == 0 || named_.contains(rank);
}

void Timeline::follow(const RankSet& ranks) {
  for (const Rank rank : ranks) {
    if (named_.size() >= static_cast<std::int64_t>(kMostNamed)) return;
    if (!follows(rank)) named_.insert(rank);
  }
}

void Timeline::add(Span span) {
  if (span.end <= span.begin) return;
  spans_.push_back(std::move(span));
  if (spans_.size() > kMostSpans) spans_.pop_front();
}

void Timeline::close(std::map<Rank, Open>& open, Rank rank, Instant now) {
  const auto found = open.find(rank);
  if (found == open.end()) return;
  found->second.span.end = now;
  add(std::move(found->second.span));
  open.erase(found);
}

void Timeline::report(Rank rank, const SlotReport& report, Instant now) {
  if (!follows(rank)) return;
  const Instant begun = now - report.since_progress;
  const auto wait = waits_.find(rank);
  const bool same = wait != waits_.end() && wait->second.group == report.group &&
                    wait->second.ordinal == report.ordinal;
  if (same) wait->second.span.end = now;
  if (wait != waits_.end() && !(same && report.waiting)) close(waits_, rank, wait->second.span.end);
  if (report.waiting && !same)
    waits_[rank] = {
        {Span::Kind::Wait, rank, begun, now, wait_name(report)}, report.group, report.ordinal};
  const auto kind = kind_of(report.phase);
  const auto phase = phases_.find(rank);
  if (phase != phases_.end() && kind == phase->second.span.kind) return;
  close(phases_, rank, now);
  if (kind) phases_[rank] = {{*kind, rank, now, now, report.event}};
}

void Timeline::told(Rank rank, const CallEvent& event, Instant now) {
  if (!follows(rank)) return;
  const std::string name = fmt::format("call {} of {}", event.call, event.frame);
  Instant at = now - event.exchange - event.trace - event.compile;
  for (const auto& [kind, took] :
       {std::pair{Span::Kind::Exchange, event.exchange}, std::pair{Span::Kind::Trace, event.trace},
        std::pair{Span::Kind::Compile, event.compile}}) {
    add({kind, rank, at, at + took, name});
    at += took;
  }
}

std::vector<Span> Timeline::spans(Instant now) const {
  std::vector<Span> all(spans_.begin(), spans_.end());
  for (const auto* open : {&waits_, &phases_})
    for (const auto& [rank, each] : *open) {
      all.push_back(each.span);
      if (open == &phases_) all.back().end = now;
    }
  // Times in call events are exact, times in reports are not. So a span from a report is cut where
  // it overlaps another.
  const auto exact = [](const Span& span) { return span.kind >= Span::Kind::Exchange; };
  std::stable_sort(all.begin(), all.end(), [&](const Span& a, const Span& b) {
    return std::tuple(a.rank, a.begin, !exact(a)) < std::tuple(b.rank, b.begin, !exact(b));
  });
  std::vector<Span> out;
  for (Span& span : all) {
    if (!out.empty() && out.back().rank == span.rank && span.begin < out.back().end) {
      if (exact(span) && !exact(out.back()))
        out.back().end = span.begin;
      else
        span.begin = out.back().end;
    }
    if (!out.empty() && out.back().end <= out.back().begin) out.pop_back();
    if (span.begin < span.end) out.push_back(std::move(span));
  }
  return out;
}

}  // namespace lockstep::coordinator
