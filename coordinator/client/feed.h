// The queue from a rank's program to its publisher. The program never waits here: if the publisher
// is too slow, the oldest events and graphs are dropped.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>

#include <lockstep/coordinator/messages/call_event.h>

namespace lockstep::coordinator {

/// Each rank has one. The program's thread writes, the publisher's thread reads.
class Feed {
 public:
  static constexpr std::size_t kMostEvents = 256, kMostGraphs = 16;

  /// Sets the counters to these totals.
  void count(const CallCounters& counters);
  void tell(CallEvent event);
  /// Keeps the text of a graph, in case the coordinator asks for it. The last kMostGraphs texts are
  /// kept.
  void keep(GraphText graph);
  void configure(std::string text);

  [[nodiscard]] CallCounters counters() const;
  /// Takes the oldest event; nullopt: no event is queued.
  [[nodiscard]] std::optional<CallEvent> take();
  [[nodiscard]] std::optional<GraphText> graph(const shapes::Fingerprint& graph) const;
  /// The configuration; its text is empty until configure() is called.
  [[nodiscard]] Configuration configuration() const;

 private:
  mutable std::mutex mutex_;  // held at most during a copy; the counters do not need it
  std::array<std::atomic<std::uint64_t>, 10 + RoundCounts::kNumbers> counters_{};
  std::deque<CallEvent> events_;
  std::deque<GraphText> graphs_;
  Configuration configuration_;
};

}  // namespace lockstep::coordinator
