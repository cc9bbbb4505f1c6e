// One call at a time: what several threads of a program hold (a job, a group of the C library, a
// controller) takes the next call when the one before has returned, from whichever thread. A call of
// another thread in between is refused, not queued: ranks whose threads call in another order would
// pair with the wrong partner.
#pragma once

#include <atomic>
#include <string>
#include <string_view>
#include <utility>

#include <lockstep/collectives/base/status.h>

namespace lockstep {

class Turn;

/// Whose turn it is. A thread that has the turn may take it again, for a call within a call. Any
/// thread; what a call changes is seen by the next one's thread. Outlives its turns.
class Turns {
 public:
  /// `of`: "a job"; kept as it is.
  explicit Turns(std::string_view of) : of_(of) {}
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  /// For one call, such as "step". Never waits. Errors: BadInput, with both threads, where a call
  /// of another thread is under way; nothing has been touched then.
  [[nodiscard]] Result<Turn> take(std::string_view call);

 private:
  friend class Turn;
  void give_back() {
    if (--depth_ == 0) thread_.store(0, std::memory_order_release);
  }
  [[nodiscard]] Status refused(std::string_view call, int by) const;

  std::string_view of_;
  std::atomic<int> thread_{0};  // that has the turn; 0: none
  int depth_ = 0;               // how often it has taken it
};

/// A turn, until it is destroyed. Of the thread that has taken it.
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
