// What the watchdog of this process says to the coordinator before it ends the process.
#pragma once

#include <atomic>

#include <lockstep/coordinator/publisher.h>

namespace lockstep::worker {

/// Made before the watch, which calls say(); there is somebody to say it to once the process has a
/// publisher, which then outlives the watch.
class LastWords {
 public:
  void through(coordinator::Publisher& publisher) { publisher_.store(&publisher); }
  void say(const Status& verdict) const {
    if (coordinator::Publisher* publisher = publisher_.load()) publisher->last_word(verdict);
  }

 private:
  std::atomic<coordinator::Publisher*> publisher_{nullptr};
};

}  // namespace lockstep::worker
