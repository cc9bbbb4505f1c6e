// What ranks of one job did when, as spans: waits and phases from their reports, parts of calls
// from what they told. For traces. No sockets and no clock.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include <lockstep/coordinator/service/progress.h>
#include <lockstep/coordinator/speech/call_event.h>

namespace lockstep::coordinator {

/// Reports come about once a second, and sooner where a wait lasts or ends that lasted: of what
/// comes and goes between two reports nothing is in a span, and a wait that was over unseen ends
/// where it was last seen.
struct Span {
  enum class Kind : std::uint8_t { Wait, Tracing, Compiling, Loading, Exchange, Trace, Compile };
  Kind kind = Kind::Wait;
  Rank rank{};
  Instant begin{0}, end{0};
  std::string name;  // "vote 12 of tensor", "call 3 of train_step"
};
[[nodiscard]] std::string_view span_kind_name(Span::Kind kind);

/// One thread.
class Timeline {
 public:
  static constexpr std::size_t kMostSpans = 16'384;
  static constexpr int kMostRanks = 512;
  /// Beside the sample: those that findings named.
  static constexpr std::size_t kMostNamed = 64;

  explicit Timeline(int size) : size_(size) {}

  void report(Rank rank, const Report& report, Instant now);
  void told(Rank rank, const CallEvent& event, Instant now);
  /// From here on these are followed, too.
  void follow(const RankSet& ranks);
  /// All of a job of up to kMostRanks ranks; of a larger one every so-manieth, always the same.
  [[nodiscard]] bool follows(Rank rank) const;

  /// By rank and begin, those of one rank one after the other; a phase that still goes on ends now.
  [[nodiscard]] std::vector<Span> spans(Instant now) const;

 private:
  struct Open {
    Span span;  // ends where it was last seen
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
