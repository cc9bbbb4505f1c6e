// What a rank's program hands to its publisher. The program never waits here: what nobody takes in
// time is dropped, oldest first.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>

#include <lockstep/coordinator/speech/call_event.h>

namespace lockstep::coordinator {

/// One rank's. Counters and told calls are written by the program's thread and read by the
/// publisher's.
class Feed {
 public:
  static constexpr std::size_t kMostEvents = 256, kMostGraphs = 16;

  /// As summed so far.
  void count(const CallCounters& counters);
  void tell(CallEvent event);
  /// Kept for whoever asks; the last kMostGraphs.
  void keep(GraphText graph);
  void configure(std::string text);

  [[nodiscard]] CallCounters counters() const;
  /// The oldest that nobody has taken.
  [[nodiscard]] std::optional<CallEvent> take();
  [[nodiscard]] std::optional<GraphText> graph(const shapes::Fingerprint& graph) const;
  /// Empty: none.
  [[nodiscard]] Configuration configuration() const;

 private:
  mutable std::mutex mutex_;  // held for a copy at most; not for the counters
  std::array<std::atomic<std::uint64_t>, 10 + RoundCounts::kNumbers> counters_{};
  std::deque<CallEvent> events_;
  std::deque<GraphText> graphs_;
  Configuration configuration_;
};

}  // namespace lockstep::coordinator
