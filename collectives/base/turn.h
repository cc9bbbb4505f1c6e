// One call at a time: an object that several threads of a program share (a job, a group of the C
// library, a controller) takes the next call, from any thread, once the previous one has returned.
// A call of another thread in between is refused, not queued: on ranks whose threads call in
// different orders, calls would pair wrongly.
#pragma once

#include <atomic>
#include <string>
#include <string_view>
#include <utility>

#include <lockstep/collectives/base/status.h>

namespace lockstep {

class Turn;

/// Gives the turn to one thread at a time. A thread that has the turn may take it again, for a call
/// within a call. Thread-safe; the changes of a call are visible to the next call. Must outlive its
/// turns.
class Turns {
 public:
  /// `of` names the object in messages, as "a job"; it is not copied.
  explicit Turns(std::string_view of) : of_(of) {}
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  /// Takes the turn for one call, such as "step". Never waits. Errors: BadInput, naming both
  /// threads, if a call of another thread is under way; then nothing has changed.
  [[nodiscard]] Result<Turn> take(std::string_view call);

 private:
  friend class Turn;
  void give_back() {
    if (--depth_ == 0) thread_.store(0, std::memory_order_release);
  }
  [[nodiscard]] Status refused(std::string_view call, int by) const;

  std::string_view of_;
  std::atomic<int> thread_{0};  // the thread that has the turn; 0: none
  int depth_ = 0;               // number of turns that this thread holds now
};

/// Holds the turn until destroyed. Belongs to the thread that has taken it.
class [[nodiscard]] Turn {
 public:
  explicit Turn(Turns& of) : of_(&of) {}
  Turn(Turn&& other) noexcept : of_(std::exchange(other.of_, nullptr)) {}
  Turn& operator=(Turn&&) = delete;
  ~Turn() {
    if (of_ != nullptr) of_->give_back();
  }

 private:
  Turns* of_;
};

}  // namespace lockstep
