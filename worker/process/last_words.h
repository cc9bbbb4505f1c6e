// What the watchdog of this process says to a coordinator before it ends the process.
#pragma once

#include <atomic>
#include <functional>
#include <utility>

#include <lockstep/collectives/base/status.h>

namespace lockstep::worker {

/// Made before the watch, which calls say(); somebody hears it from through() on.
class LastWords {
 public:
  /// Once. Whoever hears them outlives the watch.
  void through(std::function<void(const Status& verdict)> listener) {
    listener_ = std::move(listener);
    there_.store(true);
  }
  void say(const Status& verdict) const {
    if (there_.load()) listener_(verdict);
  }

 private:
  std::function<void(const Status& verdict)> listener_;
  std::atomic<bool> there_{false};
};

}  // namespace lockstep::worker
