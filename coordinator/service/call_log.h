// The calls of one job that compiled, fell back or failed, as its ranks reported them. No sockets
// and no clock. Memory is bounded, whatever ranks report.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/coordinator/messages/call_event.h>

namespace lockstep::coordinator {

/// Ranks that reported the same graph and outcome of one call. If a call has several versions, the
/// ranks differ.
struct Version {
  shapes::Fingerprint graph{};
  CallEvent::Outcome outcome = CallEvent::Outcome::Compiled;
  Code code = Code::Internal;
  std::string decisions;  // as reported by the lowest of the ranks
  RankSet ranks;
};

struct ReportedReason {
  std::string text;
  RankSet ranks;
};

/// One call, combined from the reports of its ranks.
struct ReportedCall {
  static constexpr std::size_t kMostVersions = 64, kMostReasons = 16;
  std::uint64_t serial = 0;               // order of first reports in the job, from 0
  CallEvent event;                        // the report of the lowest rank so far
  RankSet told;                           // ranks that have reported the call
  Instant first{0}, last{0};              // times of the first and the latest report
  std::vector<Version> versions;          // at most kMostVersions
  std::vector<ReportedReason> reasons;    // at most kMostReasons, in order of arrival
  RankSet other_versions, other_reasons;  // ranks of versions and reasons past the limits
  Duration compile_most{0}, waited_most{0};
  Rank compile_slowest{};
};

/// Counts of the calls of one frame. A call that many ranks report counts once.
struct ReportedFrame {
  std::uint64_t compiled = 0, fallbacks = 0, errors = 0;
  std::uint64_t last = 0;  // serial of the latest call
};

/// Single-threaded.
class CallLog {
 public:
  static constexpr std::size_t kMostCalls = 1024, kMostGraphs = 64, kMostFrames = 1024;

  void take(Rank rank, const CallEvent& event, Instant now);
  /// The graph of `event`, if the rank that sent the event should now be asked for the graph's
  /// text; else nullopt. A text that has not arrived within ten seconds is asked for again.
  [[nodiscard]] std::optional<shapes::Fingerprint> wanted(const CallEvent& event, Instant now);
  /// Takes the text of a graph that was asked for; other texts are ignored.
  void take_graph(const shapes::Fingerprint& graph, std::string text);
  void configure(std::string text) { configuration_ = std::move(text); }

  /// The latest kMostCalls calls, oldest first; their serials have no gaps.
  [[nodiscard]] const std::deque<ReportedCall>& calls() const { return calls_; }
  /// Counts of frames by name, for at most kMostFrames frames; further frames are not counted.
  [[nodiscard]] const std::map<std::string, ReportedFrame>& frames() const { return frames_; }
  /// The text of a graph; nullptr: it was not received, or has been dropped.
  [[nodiscard]] const std::string* graph_text(const shapes::Fingerprint& graph) const;
  [[nodiscard]] const std::string& configuration() const { return configuration_; }

 private:
  using Key = std::tuple<std::uint64_t, std::string, std::uint64_t, std::string>;
  [[nodiscard]] ReportedCall& call_of(const CallEvent& event, Instant now);

  std::deque<ReportedCall> calls_;
  std::map<Key, std::uint64_t> serials_;  // serials in calls_, by epoch, group, call and frame
  std::uint64_t next_ = 0;
  std::map<std::string, ReportedFrame> frames_;
  struct Graph {
    std::optional<std::string> text;
    Instant asked{0};
  };
  std::map<shapes::Fingerprint, Graph> graphs_;
  std::deque<shapes::Fingerprint> graph_order_;
  std::string configuration_;
};

}  // namespace lockstep::coordinator
