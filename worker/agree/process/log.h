// The job's log: lines on stderr by topic. Payloads and secrets never appear in it.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace lockstep::worker {

/// The compile that a log line is about: "[r3|0/1_1]" is rank 3, frame 0, its second compile, one
/// restart.
struct CompileLabel {
  int rank = 0, frame = 0, entry = 0, attempt = 0;
  [[nodiscard]] std::string text() const;
};

/// Immutable; safe to share between threads. Each line is one write, so ranks' lines do not mix.
class Log {
 public:
  Log() = default;
  explicit Log(std::set<std::string> topics) : topics_(std::move(topics)) {}
  [[nodiscard]] bool on(std::string_view topic) const;
  /// Writes if the topic is on. `text` may have several lines.
  void line(std::string_view topic, std::string_view text) const;
  void line(std::string_view topic, const CompileLabel& mark, std::string_view text) const;

 private:
  std::set<std::string> topics_ = {"info"};
};

}  // namespace lockstep::worker
