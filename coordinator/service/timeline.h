// Spans of the ranks of one job, for traces: waits and phases from reports, parts of calls from
// call events. No sockets and no clock.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include <lockstep/coordinator/messages/call_event.h>
#include <lockstep/coordinator/service/progress.h>

namespace lockstep::coordinator {

/// Reports arrive about once a second, and sooner when a long wait begins or ends. A wait or phase
/// that lies between two reports leaves no span. A wait whose end was not reported ends when it was
/// last seen.
struct Span {
  enum class Kind : std::uint8_t { Wait, Tracing, Compiling, Loading, Exchange, Trace, Compile };
  Kind kind = Kind::Wait;
  Rank rank{};
  Instant begin{0}, end{0};
  std::string name;  // "vote 12 of tensor", "call 3 of train_step"
};
[[nodiscard]] std::string_view span_kind_name(Span::Kind kind);

/// Single-threaded.
class Timeline {
 public:
  static constexpr std::size_t kMostSpans = 16'384;
  static constexpr int kMostRanks = 512;
  /// Maximum number of ranks that are followed in addition to the sample, because findings name
  /// them.
  static constexpr std::size_t kMostNamed = 64;

  explicit Timeline(int size) : size_(size) {}

  void report(Rank rank, const SlotReport& report, Instant now);
  void told(Rank rank, const CallEvent& event, Instant now);
  /// Also follows these ranks from here on.
  void follow(const RankSet& ranks);
  /// True for all ranks of a job of up to kMostRanks ranks, and for every n-th rank of a larger
  /// job, always the same ranks; and for ranks given to follow().
  [[nodiscard]] bool follows(Rank rank) const;

  /// The spans, sorted by rank and begin; spans of one rank do not overlap. A phase that still goes
  /// on ends at `now`.
  [[nodiscard]] std::vector<Span> spans(Instant now) const;

 private:
  struct Open {
    Span span;  // its end is the time of the last report
    std::uint64_t group = 0, ordinal = 0;
  };
  void add(Span span);
  void close(std::map<Rank, Open>& open, Rank rank, Instant now);

  int size_;
  RankSet named_;
  std::map<Rank, Open> waits_, phases_;
  std::deque<Span> spans_;
};

}  // namespace lockstep::coordinator
