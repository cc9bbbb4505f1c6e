// Ends the process where one blocking call does not return in time: for the waits that no board
// shows, those in which MPI starts and ends. The watchdog (watch.h) has all others.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/collectives/base/status.h>

namespace lockstep::collectives {

/// Lit by its constructor, put out by its destructor, on one thread. Its own thread makes no MPI
/// call. Without a thread to be had it does nothing.
class Fuse {
 public:
  /// After `deadline` the report goes to stderr and the process leaves with the code's exit code.
  /// `verdict` is called on the fuse's thread.
  Fuse(Duration deadline, std::function<Status()> verdict);
  ~Fuse();
  Fuse(const Fuse&) = delete;
  Fuse& operator=(const Fuse&) = delete;

 private:
  void burn(Duration deadline);
  std::function<Status()> verdict_;
  std::mutex mutex_;  // of out_
  bool out_ = false;
  std::condition_variable put_out_;
  std::thread thread_;
};

}  // namespace lockstep::collectives
