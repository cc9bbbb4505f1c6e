// Time, behind one seam: the system's monotonic clock in a real job, a virtual one in a dry run.
// No decision that ranks compare may depend on it.
#pragma once

#include <chrono>

namespace lockstep {

using Duration = std::chrono::nanoseconds;
/// Monotonic time since the clock's own epoch. Times of the system clock can be compared between
/// processes of one host.
using Instant = std::chrono::nanoseconds;

class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual Instant now() const = 0;
};

/// CLOCK_MONOTONIC. Thread-safe.
class SystemClock final : public Clock {
 public:
  [[nodiscard]] Instant now() const override;
};

/// Moves by advance() only. Not thread-safe.
class ManualClock final : public Clock {
 public:
  [[nodiscard]] Instant now() const override { return now_; }
  void advance(Duration by) { now_ += by; }

 private:
  Instant now_{0};
};

}  // namespace lockstep
