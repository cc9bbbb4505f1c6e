// Fibers: functions that can be left in the middle and entered again, so that many ranks run plain
// blocking code side by side in one thread.
#pragma once

#include <exception>
#include <functional>
#include <memory>

namespace lockstep::fuzz {

/// One function on a stack of its own. Belongs to the thread that made it. The function must have
/// ended before the fiber goes.
class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs the function until it yields or ends. Requires that it has not ended.
  void resume();
  /// Called from within the function: goes back to who resumed it.
  void yield();
  [[nodiscard]] bool ended() const;

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace lockstep::fuzz
