// Ends the process when one blocking call does not return in time: MPI's start and end, which the
// board does not show. The watchdog (watch.h) covers all other waits.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/collectives/base/status.h>

namespace lockstep::collectives {

/// Armed by the constructor, disarmed by the destructor; both on one thread. Acts on a thread of
/// its own, which makes no MPI call. Does nothing if no thread can be started.
class CallDeadline {
 public:
  /// After `deadline` the object writes the text of `verdict` to stderr and ends the process with
  /// the exit code of that verdict. It calls `verdict`, and `written` once the text is written, on
  /// its own thread.
  CallDeadline(Duration deadline, std::function<Status()> verdict,
               std::function<void()> written = {});
  ~CallDeadline();
  CallDeadline(const CallDeadline&) = delete;
  CallDeadline& operator=(const CallDeadline&) = delete;

 private:
  void wait_and_fire(Duration deadline);
  std::function<Status()> verdict_;
  std::function<void()> written_;
  std::mutex mutex_;  // guards disarmed_
  bool disarmed_ = false;
  std::condition_variable disarm_;
  std::thread thread_;
};

}  // namespace lockstep::collectives
