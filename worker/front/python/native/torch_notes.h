// Notes of the operations that the watched thread issues on the watched process group, for votes
// (votes.py).
#pragma once

#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "torch_operators.h"
#include "torch_python.h"

namespace lockstep::torch_lines {

/// Thread-safe.
class Notes {
 public:
  /// Makes the calling thread the watched one: its operations are noted from now on.
  void begin() {
    watched_thread = std::this_thread::get_id();
    clear();
  }

  /// Notes an operation that is about to be issued on the watched process group. Raises what
  /// Given::before raises, and the error of the watching group.
  void comes(const Operator& op, const char* reduction, const std::vector<at::Tensor>& payload,
             const char* place) {
    if (std::this_thread::get_id() != watched_thread.load(std::memory_order_relaxed) ||
        marks.within > 0)
      return;
    const bool is_noted = marks.votes > 0 || marks.asks > 0;
    const std::string what = is_noted ? text_of(op, reduction, payload) : op.kind;
    if (marks.asks > 0) call(given.before, "ss", what.c_str(), place);
    if (given.watching != nullptr &&
        given.issues(given.watching, (what + " at " + place).c_str()) != LOCKSTEP_OK)
      raise_last();
    if (marks.votes == 0) return;
    const std::lock_guard lock(mutex_);
    lines_.push_back(what + "\tat " + place);
    if (lines_.size() > kMostLines) shorten();
    marks.noted = static_cast<int32_t>(lines_.size());
  }

  [[nodiscard]] std::vector<std::string> lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    lines_.clear();
    marks.noted = 0;
  }

 private:
  /// Beyond this number, only the count and a fingerprint of the lines are kept.
  static constexpr size_t kMostLines = 4096;

  void shorten() {
    std::string compared;
    for (const std::string& line : lines_) compared += line.substr(0, line.find('\t')) + "\n";
    const auto found = given.fingerprint_of(compared.data(), compared.size());
    lines_ = {std::to_string(lines_.size()) + " collectives, " + std::to_string(found.high) + " " +
              std::to_string(found.low)};
  }

  std::mutex mutex_;  // guards lines_
  std::vector<std::string> lines_;
};
inline Notes notes;

}  // namespace lockstep::torch_lines
